"""Generated text: the tokens of transformers, in every family; rows alone and side by side."""

import itertools

import pytest
import torch

import clearhead as ch
from clearhead.errors import InputError
from clearhead.tokens.tokenizer import TextTokenizer
from tests.tokens import tiny as tokenizers
from tests.transformer.released_families import RELEASED, loaded, made, saved
from tests.transformer.tiny_models import BOTH, DECODERS, some_ids, tiny

WORDS = TextTokenizer.wrap(tokenizers.byte_level())
#: Longer than any window, chunk or first context of theirs.
NEW = 24


@pytest.fixture
def double():
    """Models in float64: two logits are then never as good as equal."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def greedy(theirs, ids: list[int], **options) -> list[int]:
    """What transformers generates."""
    given = torch.tensor([ids])
    found = theirs.generate(
        given,
        attention_mask=torch.ones_like(given),
        max_new_tokens=NEW,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        **options,
    )[0].tolist()
    return found[1:] if theirs.config.is_encoder_decoder else found[len(ids) :]


# ------------------------------------------------------------------------------------------ truth

CONTINUES = [name for name in RELEASED if "bert" not in name]


@pytest.mark.parametrize("name", CONTINUES)
def test_greedy_tokens_are_those_of_transformers(
    name, double, seeded_weights, generator, tmp_path
) -> None:
    theirs = made(name)
    ours = loaded(saved(theirs, tmp_path), torch.float64)
    ids = torch.randint(3, 99, (9,), generator=generator).tolist()
    # theirs keeps keys turned by angles that no longer hold
    options = {"use_cache": "longrope" not in name}
    start = None
    if name.startswith("t5"):
        start = options["decoder_start_token_id"] = 0
    found = ch.generate(ours, ids, max_new_tokens=NEW, end_tokens=(), start_tokens=start)
    assert list(found.token_ids) == greedy(theirs, ids, **options)


def test_past_the_limit_of_dynamic_scaling(double, seeded_weights, generator, tmp_path) -> None:
    theirs = made("llama dynamic")
    theirs.config.max_position_embeddings = 16
    theirs.save_pretrained(tmp_path)
    theirs = type(theirs).from_pretrained(tmp_path, dtype=torch.float64).eval()
    ours = loaded(tmp_path, torch.float64)
    ids = torch.randint(3, 99, (8,), generator=generator).tolist()
    found = ch.generate(ours, ids, max_new_tokens=NEW, end_tokens=())
    assert list(found.token_ids) == greedy(theirs, ids, use_cache=False)


@pytest.mark.real_model
def test_smollm2_writes_128_tokens_as_transformers_does(smollm2, smollm2_hf) -> None:
    text = "When the expedition reached the northern harbour, the captain wrote to the academy"
    ours = ch.generate(smollm2, text, max_new_tokens=128, end_tokens=())
    ids = torch.tensor([ours.prompt_ids])
    theirs = smollm2_hf.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=128,
        do_sample=False,
        eos_token_id=None,
    )
    assert list(ours.token_ids) == theirs[0, ids.shape[1] :].tolist()
    assert len(ours.token_ids) == 128


@pytest.mark.real_model
def test_smollm2_answers_and_ends(smollm2) -> None:
    chat = [{"role": "user", "content": "Answer with one word: the capital of France?"}]
    pieces = ch.stream(smollm2, chat, max_new_tokens=60)
    shown = list(pieces)
    made = pieces.generated
    assert "".join(shown) == made.text
    assert "Paris" in made.text
    assert (made.stopped_by, made.stopped_at) == ("end_token", 2)
    assert made.token_ids[-1] == 2
    assert "<|im_end|>" not in made.text


# --------------------------------------------------------------------------------- rows of a batch


@pytest.mark.parametrize("temperature", [0.0, 1.3])
@pytest.mark.parametrize("name", [*DECODERS, *BOTH])
def test_a_row_is_what_it_is_alone(name, temperature, seeded_weights, generator) -> None:
    model = tiny(name)
    prompts = [some_ids(generator, length).tolist() for length in (7, 2, 12)]
    options = {"temperature": temperature, "max_new_tokens": 14, "end_tokens": range(4)}
    if model.encoder is not None:
        options["start_tokens"] = [5, 6]
    together = ch.generate(model, prompts, seed=11, **options)
    for row, (prompt, found) in enumerate(zip(prompts, together, strict=True)):
        alone = ch.generate(model, prompt, seed=11 + row, **options)
        assert found.token_ids == alone.token_ids
        assert found.stopped_by == alone.stopped_by
        assert found.seed == alone.seed == (11 + row if temperature else None)


def test_a_seed_repeats_and_another_does_not(seeded_weights) -> None:
    model = tiny()
    options = {"temperature": 1.5, "max_new_tokens": 40}
    first = ch.generate(model, [1, 2], seed=4, **options)
    assert ch.generate(model, [1, 2], seed=4, **options).token_ids == first.token_ids
    assert ch.generate(model, [1, 2], seed=5, **options).token_ids != first.token_ids
    drawn = ch.generate(model, [1, 2], **options)
    again = ch.generate(model, [1, 2], seed=drawn.seed, **options)
    assert again.token_ids == drawn.token_ids


# ------------------------------------------------------------------------------ text as it comes


@pytest.fixture
def writer(seeded_weights):
    """A small model with a token for every byte."""
    model = tiny(vocabulary_size=WORDS.vocabulary_size, context_length=400)
    vars(model).update(clearhead_tokenizer=WORDS)
    return model


def test_pieces_joined_are_the_text(writer, seed) -> None:
    options = {"temperature": 1.0, "seed": seed, "max_new_tokens": 200}
    pieces = ch.stream(writer, "he", **options)
    shown = list(pieces)
    assert all(shown)
    whole = ch.generate(writer, "he", **options)
    assert "".join(shown) == pieces.generated.text == whole.text
    assert pieces.generated.token_ids == whole.token_ids
    # a control token has no text, and no character runs through it
    runs = itertools.groupby(whole.token_ids, key=lambda token: token > 1)
    spoken = [b"".join(map(WORDS.token_bytes, run)) for text, run in runs if text]
    decoded = "".join(run.decode(errors="replace") for run in spoken)
    assert decoded.rstrip("\ufffd") == whole.text.rstrip("\ufffd")


def test_a_text_ends_before_a_stop_string(writer) -> None:
    options = {"temperature": 1.0, "seed": 1, "max_new_tokens": 60, "end_tokens": ()}
    whole = ch.generate(writer, "he", **options).text
    stop = whole[20:23]
    found = ch.generate(writer, "he", stop=["never in it", stop], **options)
    assert found.text == whole[: whole.index(stop)]
    assert (found.stopped_by, found.stopped_at) == ("stop_string", stop)
    assert "".join(ch.stream(writer, "he", stop=stop, **options)) == found.text


def test_a_stream_that_is_broken_off_leaves_what_was_written(writer) -> None:
    pieces = ch.stream(writer, "he", max_new_tokens=50, temperature=1.0, seed=3, end_tokens=())
    first = next(pieces)
    assert pieces.generated.stopped_by == "interrupted"
    assert pieces.generated.text == first
    assert len(pieces.generated.token_ids) >= 1


def test_an_interrupt_leaves_what_was_written(writer) -> None:
    calls = []

    def interrupt(*_) -> None:
        calls.append(1)
        if len(calls) == 6:
            raise KeyboardInterrupt

    handle = writer.register_forward_pre_hook(interrupt)
    pieces = ch.stream(writer, "he", temperature=1.0, seed=3, end_tokens=())
    shown = []
    with pytest.raises(KeyboardInterrupt):
        shown.extend(pieces)
    handle.remove()
    assert len(pieces.generated.token_ids) == 5
    assert pieces.generated.stopped_by == "interrupted"


def test_gradients_and_modes_are_left_alone(writer) -> None:
    writer.train()
    for _ in ch.stream(writer, "he", max_new_tokens=3):
        assert torch.is_grad_enabled()
    assert writer.training
    assert all(parameter.grad is None for parameter in writer.parameters())


def test_a_list_in_a_list_out(writer) -> None:
    assert isinstance(ch.generate(writer, "he", max_new_tokens=1), ch.Generated)
    assert len(ch.generate(writer, ["he"], max_new_tokens=1)) == 1
    assert isinstance(ch.generate(writer, torch.tensor([[5]]), max_new_tokens=1), ch.Generated)
    padded = torch.tensor([[0, 5], [6, 7]])
    mask = torch.tensor([[0, 1], [1, 1]])
    found = ch.generate(writer, padded, attention_mask=mask, max_new_tokens=2)
    assert [one.prompt_ids for one in found] == [(5,), (6, 7)]


def test_the_context_ends_a_text(seeded_weights) -> None:
    found = ch.generate(tiny(), [1] * 60, end_tokens=())
    assert (len(found.token_ids), found.stopped_by) == (4, "context")


def test_faults_are_told_before_the_first_piece() -> None:
    with pytest.raises(InputError, match="stream: this model brings no tokenizer"):
        ch.stream(tiny(), [1])
