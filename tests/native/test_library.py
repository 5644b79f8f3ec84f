"""Who may call native code: whoever loses nothing if PyTorch does not see it."""

import logging
import subprocess
import sys

import pytest
import torch
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from clearhead.native import library
from clearhead.native.building import AbsentError
from clearhead.native.library import function, unseen
from clearhead.native.linear import linear
from clearhead.transformer.norms import RMSNorm

#: What PyTorch's transforms load says so of itself.
TRANSFORMS = pytest.mark.filterwarnings("ignore:`torch.jit.script` is:DeprecationWarning")
NAMES = ("linear", "rms_norm", "rotate", "attend")


class Numbers(torch.Tensor):
    """A tensor of another kind."""


def test_every_function_is_there() -> None:
    for name in NAMES:
        for dtype in (torch.float32, torch.bfloat16):
            assert function(name, dtype) is not None
        assert function(name, torch.float64) is None


def test_plain_tensors_may_be_read_unseen() -> None:
    x, weight = torch.zeros(3), torch.nn.Parameter(torch.zeros(3))
    assert unseen(x, None)
    assert not unseen(x, weight)
    with torch.no_grad():
        assert unseen(x, weight)
    with torch.inference_mode():
        assert unseen(x, weight)


@pytest.mark.parametrize(
    "other",
    [
        torch.zeros(3, device="meta"),
        Numbers(3),
        torch.zeros(3, 3).to_sparse(),
        torch.zeros(3).to_mkldnn(),
        torch.zeros(3, dtype=torch.complex64).conj().imag,
        torch._efficientzerotensor((3,)),
    ],
)
def test_other_tensors_may_not(other) -> None:
    assert not unseen(other)


@TRANSFORMS
def test_not_where_somebody_watches() -> None:
    x = torch.zeros(3)
    with torch.autocast("cpu"):
        assert not unseen(x)
    with TorchDispatchMode():
        assert not unseen(x)
    with TorchFunctionMode():
        assert not unseen(x)
    with forward_ad.dual_level():
        assert not unseen(forward_ad.make_dual(x, x))
    seen = []
    torch.func.vmap(lambda row: seen.append(unseen(x)) or row)(torch.zeros(2, 3))
    torch.func.grad(lambda row: seen.append(unseen(x)) or row.sum())(x)
    assert seen == [False, False]


@TRANSFORMS
def test_tangents_and_transforms_go_through_a_product(generator) -> None:
    weight = torch.randn(300, 256, generator=generator)
    x, tangent = torch.randn(2, 1, 256, generator=generator)
    with forward_ad.dual_level(), torch.no_grad():
        made = forward_ad.unpack_dual(linear(forward_ad.make_dual(x, tangent), weight))
    torch.testing.assert_close(made.tangent, tangent @ weight.T)
    rows = torch.randn(3, 1, 256, generator=generator)
    torch.testing.assert_close(
        torch.func.vmap(lambda row: linear(row, weight))(rows), rows @ weight.T
    )


@pytest.mark.filterwarnings("ignore:`torch.jit.trace:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")  # of run-time shape checks
@TRANSFORMS
@torch.no_grad()
def test_what_is_recorded_is_pytorchs(generator) -> None:
    norm, x = RMSNorm(8, epsilon=1e-6), torch.randn(2, 1, 1, 8, generator=generator)
    for recorded in (
        torch.jit.trace(norm, x[0], check_trace=False),
        make_fx(norm, pre_dispatch=True)(x[0]),
        make_fx(norm)(x[0]),
    ):
        torch.testing.assert_close(recorded(x[1]), norm(x[1]))


def test_a_counter_sees_the_product(generator) -> None:
    with FlopCounterMode(display=False) as counter:
        linear(torch.randn(1, 256, generator=generator), torch.zeros(300, 256))
    assert counter.get_total_flops() == 2 * 256 * 300


def test_without_it_all_is_pytorchs_and_the_log_says_why(monkeypatch, caplog) -> None:
    faults = {
        AbsentError("no C compiler"): (logging.INFO, "no C compiler"),
        PermissionError("read-only"): (logging.WARNING, "PermissionError: read-only"),
        subprocess.TimeoutExpired("cc", 60): (logging.WARNING, "TimeoutExpired"),
    }
    for fault, (level, words) in faults.items():

        def refuse(fault: Exception = fault, **_: bool) -> None:
            raise fault

        monkeypatch.setattr(library, "build", refuse)
        caplog.clear()
        with caplog.at_level(logging.INFO, logger="clearhead"):
            assert library._functions.__wrapped__() == {}
        [said] = caplog.records
        assert said.levelno == level
        assert words in said.getMessage()


def test_the_same_model_speaks_without_it(tmp_path) -> None:
    code = (
        "import torch\n"
        "from clearhead.native.library import function\n"
        "from clearhead.native.linear import linear\n"
        "assert function('linear', torch.float32) is None\n"
        "print(linear(torch.ones(1, 256), torch.ones(300, 256)).unique().item())\n"
    )
    environment = {"CLEARHEAD_NATIVE": "0", "CLEARHEAD_CACHE": str(tmp_path), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout == "256.0\n"
    assert not list(tmp_path.iterdir())
