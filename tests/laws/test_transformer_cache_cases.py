"""What went wrong elsewhere with padding and caches; the numbers are those of the list of cases."""

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy

from clearhead.errors import InputError
from clearhead.masks import padding_mask
from clearhead.positions.kinds import Rotary
from clearhead.positions.scaling import DynamicScaling
from clearhead.transformer.attention import MultiHeadAttention
from clearhead.transformer.calls import Encoded
from clearhead.transformer.config import LayerKind
from clearhead.transformer.model import Transformer
from tests.accuracy import assert_double
from tests.laws.architectures import held
from tests.transformer.beside_theirs import Alone
from tests.transformer.doubled import Doubled
from tests.transformer.released_families import RELEASED, VOCABULARY, loaded, made, saved, twin
from tests.transformer.tiny_models import BOTH, DECODERS, some_ids, tiny

DECODING = pytest.mark.parametrize("name", [*DECODERS, *BOTH])


def source_of(model: Transformer, generator: torch.Generator, *, rows: int) -> Encoded | None:
    """What an encoder made of some texts; None where there is none."""
    return None if model.encoder is None else model.encode(some_ids(generator, rows, 5))


def rows_of(source: Encoded | None, rows: Sequence[int]) -> Encoded | None:
    """Some rows of it."""
    return None if source is None else Encoded(source.hidden[list(rows)])


# ---------------------------------------------------------------- angles that go by the length


@torch.no_grad()
def test_case_20_dynamic_angles_are_cached_only_while_they_hold(
    generator: torch.Generator, seeded_weights: None, tmp_path: Path
) -> None:
    """Case 20: within the context a cache equals the full pass, beyond it is refused, in words.

    Without a cache a longer text is read, and every one is as transformers reads it.
    """
    alone, model = dynamic(tmp_path)
    text = torch.randint(3, VOCABULARY, (14,), generator=generator)
    cache = held(model, batch=1)
    with Doubled():
        for end in range(1, 15):
            full = model(text[None, :end]).logits
            assert_double(full[0], alone.of(text[:end], text)["logits"][0])
            if end <= 8:
                assert_double(model(text[None, end - 1 : end], cache=cache).logits, full[:, -1:])
    with pytest.raises(InputError, match="every token beyond the first 8 changes the angles"):
        model(text[None, 8:9], cache=cache)
    assert cache.lengths == (8,)


def dynamic(folder: Path) -> tuple[Alone, Transformer]:
    """A model for texts of 8 tokens: transformers' and ours."""
    from transformers import LlamaConfig, LlamaForCausalLM

    turned = {"rope_type": "dynamic", "rope_theta": 500.0, "factor": 3.0}
    settings = {**RELEASED["llama"][1], "max_position_embeddings": 8, "rope_parameters": turned}
    theirs = LlamaForCausalLM(LlamaConfig(**settings, attn_implementation="eager")).eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    with Doubled():
        wide = LlamaForCausalLM(LlamaConfig(**settings, attn_implementation="eager")).eval()
    wide.load_state_dict(theirs.state_dict())
    return Alone(wide), loaded(saved(theirs, folder), torch.float64)


@torch.no_grad()
def test_case_20_a_text_made_shorter_is_not_read_on_from(generator, seeded_weights) -> None:
    """Case 20: keys of a long text were turned for its length, so cropping it is refused."""
    scaling = DynamicScaling(4.0, original_context=8)
    model, ids = tiny(positions=Rotary(scaling=scaling)), some_ids(generator, 1, 12)
    cache = held(model, batch=1)
    model(ids, cache=cache)
    for length in (6, -3):
        with pytest.raises(InputError, match="change when it becomes shorter"):
            cache.crop(length)
    assert cache.lengths == (12,)


@pytest.mark.parametrize("variant", ["llama longrope", "phi3 longrope, partial"])
@torch.no_grad()
def test_case_21_a_text_that_outgrows_its_angles_is_read_again(
    variant: str, generator: torch.Generator, seeded_weights: None, tmp_path: Path
) -> None:
    """Case 21: prompts below the limit, the end above it: as transformers reads the whole text.

    Rows cross the limit of 6 at different steps; cropped back below it, they cross it again.
    """
    theirs = made(variant)
    model = loaded(saved(theirs, tmp_path), torch.float64)
    with Doubled():
        alone = Alone(twin(theirs, variant))
        texts = torch.randint(3, VOCABULARY, (2, 12), generator=generator)
        real = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 0, 1, 1]])
        prompt = torch.stack((texts[0, :5], torch.cat((texts[1, :3], texts[1, :2]))))
        cache = held(model, batch=2)
        model(prompt, attention_mask=real, cache=cache)
        for begin in (5, 6, 7, 8, 5, 6, 7):
            cache.crop(begin) if begin < max(cache.lengths) else None
            token = torch.stack((texts[0, begin], texts[1, cache.lengths[1]]))[:, None]
            got = model(token, cache=cache).logits
            for row, end in enumerate(cache.lengths):
                expected = alone.of(texts[row, :end], texts[row])["logits"]
                assert_double(got[row, 0], expected[0, -1])
    assert max(cache.lengths) > 6


# ---------------------------------------------------------------------------------------- padding


@DECODING
@pytest.mark.parametrize("pads", [1, 6])
@torch.no_grad()
def test_case_29_left_padding_does_not_shift_positions(
    name: str, pads: int, generator: torch.Generator, seeded_weights: None
) -> None:
    """Case 29: one pad: the loss of the text stays what it was."""
    model, ids = tiny(name), some_ids(generator, 1, 9)
    padded = torch.cat((some_ids(generator, 1, pads), ids), 1)
    real = (torch.arange(9 + pads) >= pads)[None]
    with Doubled():
        source = source_of(model, generator, rows=1)
        losses = [
            cross_entropy(
                model(read, attention_mask=mask, source=source).logits[0, -9:-1], ids[0, 1:]
            )
            for read, mask in ((ids, None), (padded, real))
        ]
    assert_double(losses[1], losses[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@torch.no_grad()
def test_case_30_no_real_score_lies_below_a_masked_one(dtype: torch.dtype) -> None:
    """Case 30: real scores of −110,208 beside masked ones: the masked are −inf, not −1e5."""
    module = MultiHeadAttention(2, heads=1, scale=1.0).to(dtype)
    module.to_query.weight.data = 332 * torch.eye(2, dtype=dtype)
    module.to_key.weight.data = -332 * torch.eye(2, dtype=dtype)
    module.to_value.weight.data = module.to_output.weight.data = torch.eye(2, dtype=dtype)
    x = torch.tensor([[[1, 0], [1, 0], [0, 1]]], dtype=dtype)
    got = module(x, mask=padding_mask(torch.tensor([1, 1, 0])))
    assert torch.equal(got[0, :2], x[0, :2])


# ------------------------------------------------------------------------------------ reading on


@DECODING
@pytest.mark.parametrize("pads", [0, 3])
@torch.no_grad()
def test_case_33_a_prompt_reads_the_same_with_a_cache_object(
    name: str, pads: int, generator: torch.Generator, seeded_weights: None
) -> None:
    """Case 33: the mask is there on both paths."""
    model, ids = tiny(name), some_ids(generator, 2, 9)
    real = torch.ones(2, 9, dtype=torch.bool)
    real[1, :pads] = False
    with Doubled():
        source, cache = source_of(model, generator, rows=2), held(model, batch=2)
        plain = model(ids, attention_mask=real, source=source).hidden
        cached = model(ids, attention_mask=real, source=source, cache=cache).hidden
    assert_double(cached[real], plain[real])


@DECODING
@torch.no_grad()
def test_case_34_a_step_of_two_tokens_equals_two_steps(
    name: str, generator: torch.Generator, seeded_weights: None
) -> None:
    """Case 34: the first of the two sees the prompt and not the second."""
    model, ids = tiny(name), some_ids(generator, 2, 8)
    with Doubled():
        source, steps = source_of(model, generator, rows=2), []
        for sizes in ([6, 2], [6, 1, 1]):
            cache = held(model, batch=2)
            parts = [model(part, cache=cache, source=source).hidden for part in ids.split(sizes, 1)]
            steps.append(torch.cat(parts[1:], 1))
    assert_double(*steps)


@pytest.mark.parametrize("name", [*DECODERS, *BOTH, "a window that moves"])
@torch.no_grad()
def test_case_37_beams_are_reordered_in_every_cache(
    name: str, generator: torch.Generator, seeded_weights: None
) -> None:
    """Case 37: beam search: at each step the logits are those of reading each beam anew."""
    model, prompt = moving() if name not in (*DECODERS, *BOTH) else (tiny(name), 5)
    with Doubled():
        source = rows_of(source_of(model, generator, rows=1), [0, 0, 0])
        beams, cache = (
            some_ids(generator, 1, prompt).expand(3, -1),
            held(model, batch=3, capacity=640),
        )
        logits = model(beams, cache=cache, source=source).logits[:, -1]
        total, width = torch.tensor([[0.0], [-1e9], [-1e9]]), logits.shape[-1]
        for _ in range(6):
            total, best = (total + logits.log_softmax(-1)).flatten().topk(3)
            rows, total = best // width, total[:, None]
            cache.reorder(rows)
            source = rows_of(source, rows.tolist())
            beams = torch.cat((beams[rows], (best % width)[:, None]), 1)
            logits = model(beams[:, -1:], cache=cache, source=source).logits[:, -1]
            assert_double(logits, model(beams, source=source).logits[:, -1])


def moving() -> tuple[Transformer, int]:
    """A model whose window has moved along after a prompt of so many tokens."""
    return tiny(pattern=(LayerKind(window=3), LayerKind()), context_length=640), 600


@DECODING
@torch.no_grad()
def test_case_38_slots_that_hold_nothing_are_not_looked_at(
    name: str, generator: torch.Generator, seeded_weights: None
) -> None:
    """Case 38: whatever the capacity, and whatever stands in slots that are not in use."""
    model, ids = tiny(name), some_ids(generator, 2, 9)
    with Doubled():
        source, said = source_of(model, generator, rows=2), []
        for capacity, filling in ((9, 0.0), (64, 1e3), (700, math.nan)):
            cache = held(model, batch=2, capacity=capacity)
            for tensor in (t for memory in cache.layers for t in (memory.key, memory.value)):
                tensor.fill_(filling)
            parts = [
                model(part, cache=cache, source=source).hidden for part in ids.split([6, 1, 2], 1)
            ]
            said.append(torch.cat(parts, 1))
    assert_double(said[1], said[0])
    assert_double(said[2], said[0])


@DECODING
@torch.no_grad()
def test_case_39_crop_keeps_what_it_says(
    name: str, generator: torch.Generator, seeded_weights: None
) -> None:
    """Case 39: crop(0) keeps nothing; crop(−5) of 3 is refused; crop(−3) of 3 keeps nothing."""
    model, ids = tiny(name), some_ids(generator, 2, 7)
    with Doubled():
        source, cache = source_of(model, generator, rows=2), held(model, batch=2)
        expected = model(ids, source=source).hidden
        for crop in (0, -3):
            model(some_ids(generator, 2, 3), cache=cache, source=source)
            with pytest.raises(InputError) as caught:
                cache.crop(-5)
            assert str(caught.value) == (
                "crop(-5) must forget at most what every row holds, got rows of 3, 3 tokens"
            )
            cache.crop(crop)
            assert cache.lengths == (0, 0)
            assert_double(model(ids, cache=cache, source=source).hidden, expected)
            cache.crop(0)
