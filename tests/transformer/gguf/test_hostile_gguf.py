"""Whatever stands in a GGUF file, it is read or refused by name; nothing is left half-written."""

import random
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFWriter

from clearhead.errors import CheckpointError, ClearheadError
from clearhead.transformer.gguf.header import read_header
from clearhead.transformer.gguf.kept import folder_of
from tests.transformer.hostile import SECONDS, bounded, flipped, outcome

__all__ = ["bounded"]  # a fixture for every test here


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A GGUF file of three thousand bytes, with a tokenizer of a few tokens."""
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "tiny.gguf"
    writer = GGUFWriter(file, "llama")
    writer.add_block_count(1)
    writer.add_context_length(8)
    writer.add_embedding_length(4)
    writer.add_feed_forward_length(2)
    writer.add_head_count(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(["a", "b", "ab", "<s>"])
    writer.add_token_merges(["a b"])
    writer.add_token_types([1, 1, 1, 3])
    writer.add_bos_token_id(3)
    shapes = {"token_embd": (4, 4), "output_norm": (4,), "blk.0.attn_norm": (4,)}
    shapes |= {f"blk.0.attn_{part}": (4, 4) for part in ("q", "k", "v", "output")}
    shapes |= {"blk.0.ffn_norm": (4,), "blk.0.ffn_gate": (2, 4), "blk.0.ffn_up": (2, 4)}
    for name, shape in (shapes | {"blk.0.ffn_down": (4, 2)}).items():
        writer.add_tensor(f"{name}.weight", np.ones(shape, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def converted(file: Path) -> str | None:
    """What is said of a file; None where it is converted, and then read."""
    models = file.parent / "cache" / "models"
    started = time.process_time()
    try:
        folder = folder_of(file)
    except ClearheadError as fault:
        assert not models.exists() or not list(models.iterdir())  # nothing half-written
        return str(fault)
    finally:
        assert time.process_time() - started < SECONDS
    said = outcome(folder)
    shutil.rmtree(models)
    return said


def test_the_file_itself_is_read(tiny: Path) -> None:
    assert converted(tiny) is None


def test_every_truncation_of_a_gguf_file_is_refused(tiny: Path) -> None:
    whole = tiny.read_bytes()
    for length in range(len(whole)):
        tiny.write_bytes(whole[:length])
        with pytest.raises(CheckpointError) as caught:
            read_header(tiny)
        assert str(caught.value).startswith(f"{tiny} cannot be read as GGUF: ")
    for length in range(0, len(whole), 50):
        tiny.write_bytes(whole[:length])
        said = converted(tiny)
        assert said is not None
        assert said.startswith(f"{tiny} cannot be read")


def test_flipped_bits_of_a_gguf_header_are_read_or_refused(tiny: Path, seed: int) -> None:
    chance = random.Random(seed)
    whole = tiny.read_bytes()
    header = min(tensor.start for tensor in read_header(tiny).tensors.values())
    refusals = 0
    for bit in chance.sample(range(8 * header), 300):
        tiny.write_bytes(flipped(whole, bit))
        said = converted(tiny)
        assert said is None or str(tiny) in said or "cache" in said
        refusals += said is not None
    assert refusals


def test_settings_of_a_gguf_file_are_read_or_refused(tiny: Path, seed: int) -> None:
    """Numbers of the header are exchanged for others, which its bits alone would hardly give."""
    chance = random.Random(seed)
    whole = tiny.read_bytes()
    names = ["block_count", "context_length", "embedding_length", "feed_forward_length"]
    names += ["attention.head_count", "attention.layer_norm_rms_epsilon"]
    for name in names:
        at = whole.index(f"llama.{name}".encode()) + len(f"llama.{name}") + 4
        for number in (0, 1, 3, 7, 2**16, 2**31 - 1, 2**31, 2**32 - 1, chance.randrange(2**32)):
            tiny.write_bytes(whole[:at] + number.to_bytes(4, "little") + whole[at + 4 :])
            said = converted(tiny)
            assert said is None or str(tiny) in said
