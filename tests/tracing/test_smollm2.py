"""Real models: SmolLM2 row by row, from either engine, and MiniLM, which looks both ways."""

from contextlib import contextmanager

import pytest
import torch

import clearhead as ch
from clearhead.tracing.trace import trace

pytestmark = pytest.mark.real_model

TEXT = (
    "When the expedition reached the northern harbour, the captain wrote to the academy that "
    "the ice had closed earlier than any of the older charts suggested. Her letter, dated the"
    " ninth of September, lists the instruments they had saved: two chronometers, a sextant, "
    "the dip circle and, wrapped in sailcloth, the glass plates. “We shall winter here,” she "
    "added, “and measure what we came to measure.” The crew built a hut of driftwood and "
    "stones. Every morning at seven somebody read the thermometer, every evening at nine "
    "somebody wound the clocks; in between they mended nets, told stories and argued about "
    "whether the aurora made a sound. By January the sun had been gone for sixty days, and "
    "the readings, which had been neat columns of figures, began to be followed by remarks: a"
    " fox on the roof, bread at last, naïve hopes, 1 January −41.5 °C, the mercury frozen. "
    "When the ship was free again in June, the notebooks held more than four thousand "
    "observations, and nobody aboard could say any longer which of them had been the "
    "important ones. The academy printed the figures and left out the fox. A century later a "
    "student, looking for the first, found the second, and wrote her thesis about what people"
    " note down when they are alone. It begins with the fox, which had come for the bread, "
    "and ends with the clocks, which had kept Greenwich time to within four seconds; between "
    "the two stand the remarks, all of them, in the order in which they were written."
)


@pytest.fixture(scope="module")
def found(smollm2_hf):
    """The text, traced with transformers' engine."""
    return trace(smollm2_hf, TEXT)


@pytest.fixture(scope="module")
def ids(found):
    return torch.tensor([found.token_ids])


def exact_weights(layer) -> torch.Tensor:
    """A causal softmax of the trace's own Q and K, in float64."""
    n = layer.query.shape[1]
    key = layer.key.double().repeat_interleave(len(layer.query) // len(layer.key), 0)
    scores = layer.query.double() @ key.mT / layer.query.shape[2] ** 0.5
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    return scores.masked_fill_(later, -torch.inf).softmax(-1)


def test_every_row_is_a_softmax_of_its_own_query_and_key(found):
    assert len(found) >= 300
    assert (len(found.layers), found.heads) == (30, 9)
    assert found.causal
    for layer in found:
        weights = layer.weights.to_dense()
        assert weights.shape == (9, len(found), len(found))
        assert (weights - exact_weights(layer)).abs().max() <= 5e-6


@contextmanager
def using(model, name):
    """The same model with another implementation of attention, for a while: it is the session's."""
    ch.register_attention()
    assert model.config._attn_implementation == "sdpa"
    model.set_attn_implementation(name)
    try:
        with torch.no_grad():
            yield model
    finally:
        model.set_attn_implementation("sdpa")


def test_every_row_is_that_of_eager_attention(found, ids, smollm2_hf):
    with using(smollm2_hf, "eager") as eager:
        peer = eager(ids, output_attentions=True, logits_to_keep=1)
    for layer, theirs in zip(found, peer.attentions, strict=True):
        assert (layer.weights.to_dense() - theirs[0]).abs().max() <= 5e-5


def test_logits_are_those_of_sdpa_bit_for_bit(found, ids, smollm2_hf):
    with torch.no_grad():
        plain = smollm2_hf(ids).logits
        last = smollm2_hf(ids, logits_to_keep=1).logits[0, 0]
    assert torch.equal(last, found.next_logits)
    with using(smollm2_hf, "clearhead") as ours:
        assert torch.equal(ours(ids).logits, plain)


def test_our_own_engine_gives_the_same_trace_bit_for_bit(found, ids, smollm2):
    ours = trace(smollm2, ids)
    assert ours.tokens == found.tokens
    assert ours.model_name == found.model_name
    assert ours.weights_origin == found.weights_origin
    assert ours.context_length == found.context_length == 8192
    assert ours.nbytes == found.nbytes
    for own, theirs in zip(ours, found, strict=True):
        for name in ("query", "key", "value", "logsumexp", "context", "output", "value_norms"):
            assert torch.equal(getattr(own, name), getattr(theirs, name)), name
    assert torch.equal(ours.next_logits, found.next_logits)


def test_what_is_made_again_has_the_bits_of_the_run(smollm2_hf, smollm2):
    for model in (smollm2_hf, smollm2):
        kept = trace(model, TEXT[:200], keep=("context", "output"), layers=[0, 17, 29])
        again = trace(model, TEXT[:200], layers=[0, 17, 29])
        for ours, run in zip(again, kept, strict=True):
            assert ours.same_bits
            assert torch.equal(ours.context, run.context)
            assert torch.equal(ours.output, run.output)


def test_a_trace_is_far_smaller_than_the_matrices(found):
    n = len(found)
    each = n * 64 * 4 * (9 + 3 + 3) + 2 * 9 * n * 4  # Q, K and V, L and the norms
    assert found.nbytes == 30 * each
    assert found.dense_nbytes == 30 * 9 * n * n * 4


@pytest.mark.parametrize("engine", ["smollm2", "smollm2_hf"])
def test_paris_comes_next(engine, request):
    found = trace(request.getfixturevalue(engine), "The capital of France is")
    first = found.next_tokens(1)[0]
    assert first.token == " Paris"
    assert first.probability == pytest.approx(0.773, abs=5e-4)


@pytest.mark.parametrize("engine", ["smollm2", "smollm2_hf"])
def test_chat_messages_begin_once(engine, request):
    messages = [
        {"role": "system", "content": "You answer in one word."},
        {"role": "user", "content": "The capital of France?"},
    ]
    found = trace(request.getfixturevalue(engine), messages)
    assert found.token_ids[0] == 1
    assert found.tokens[:2] == ("<|im_start|>", "system")
    assert "".join(found.tokens).endswith("<|im_end|>\n<|im_start|>assistant\n")
    # the token that begins a text is the one that begins a message: one for each, and none beside
    assert found.token_ids.count(1) == 3


def test_sources_of_an_answer(smollm2):
    found = trace(smollm2, "The capital of France is", queries=[-1])
    sources = found.sources()
    assert sources.share.sum() == pytest.approx(1, abs=1e-6)
    # first tokens soak up attention and bring little
    assert sources.first_token_attention > 0.5
    assert found.sources(by="attention").share[0] == pytest.approx(sources.first_token_attention)
    assert sources.share[0] < 0.75 * sources.first_token_attention
    strongest = max(sources.strongest, key=lambda link: link.share)
    assert strongest == sources.strongest[0]


def test_padded_texts_are_traced_alone(smollm2):
    texts = [smollm2.clearhead_tokenizer.encode(text) for text in ("The sky is", TEXT[:120])]
    longest = max(map(len, texts))
    ids = torch.tensor([[0] * (longest - len(text)) + text for text in texts])
    real = torch.arange(longest) >= torch.tensor([[longest - len(text)] for text in texts])
    for found, text in zip(trace(smollm2, ids, attention_mask=real), texts, strict=True):
        alone = trace(smollm2, text)
        assert found.tokens == alone.tokens
        for ours, single in zip(found, alone, strict=True):
            assert (ours.weights.to_dense() - single.weights.to_dense()).abs().max() <= 5e-5


def test_minilm_looks_both_ways(minilm_folder):
    found = trace(ch.from_pretrained("minilm"), "An encoder looks both ways, unhurriedly.")
    assert not found.causal
    assert found.next_tokens() == ()
    assert (len(found.layers), found.heads) == (6, 12)
    assert found.tokens[0] == "[CLS]"
    assert found.find("unhurriedly") == len(found) - 3
    for layer in found:
        weights = layer.weights.to_dense()
        key, query = layer.key.double(), layer.query.double()
        exact = (query @ key.mT / 32**0.5).softmax(-1)
        assert (weights - exact).abs().max() <= 5e-6
        assert (weights[:, 0, 1:] > 0).all()
    assert found.sources("both").share.sum() == pytest.approx(1, abs=1e-6)
