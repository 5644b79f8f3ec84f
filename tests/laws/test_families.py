"""What a trace says of a family of transformers is what the model itself made, or it is refused.

Every model is tiny and random, with windows and chunks that its texts cross. The truth is the same
weights run in float64 by the model's own eager attention, each text alone and without padding; an
error is judged by the one that the same eager run makes in the dtype of the trace. Left out are
some models whose experts are chosen otherwise at a near tie.
"""

from copy import deepcopy
from functools import lru_cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

import clearhead as ch
from families.eager import eager_run
from families.tiny import target, text, tiny_model
from families.verdict import parts
from tests.tracing.closeness import assert_as_near

#: Families that trace, by task: those whose own runs differ too little from text to text, from
#: dtype to dtype and from padding to padding to leave room for a fault.
TRACED = {
    "causal": (
        "afmoe apertus arcee axk1 bailing_hybrid bamba bart bert biogpt bitnet blenderbot codegen "
        "cohere cohere2 "
        "cohere2_moe cohere_compass_text ctrl cwm deepseek_v2 deepseek_v3 emu3 ernie4_5_moe "
        "exaone4 flex_olmo fuyu gemma2 gemma3_text gemma4_text glm4 glm4_moe gpt2 gpt_neox gptj "
        "granitemoehybrid helium hunyuan_v1_moe internlm3 jais2 jetmoe laguna lfm2 llama marian "
        "minicpm3 minimax_m2 mistral mllama moshi nanochat nemotron_h olmo2 opt persimmon phi3 "
        "qwen2 qwen3 qwen3_5_moe smollm3 stablelm xmod zamba zaya"
    ),
    "masked": "bert electra esm modernbert nomic_bert roberta ultrabert",
    "seq2seq": "bart blenderbot m2m_100 marian mt5 nllb-moe pegasus plbart",
}
#: Families whose layers compute attention where no trace sees it.
UNSEEN = ["bloom", "falcon", "big_bird", "mamba", "xlnet"]
CASES = [(task, family) for task, names in TRACED.items() for family in names.split()]
# below the other two, for a family to stay the same the longest: its runs are remembered
FAMILIES = pytest.mark.parametrize(
    ("task", "family"), CASES, ids=[f"{family}-{task}" for task, family in CASES]
)
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
LENGTHS = {"none": (12, 12, 12), "left": (12, 9, 8), "right": (12, 9, 8)}
PADDING = pytest.mark.parametrize("padding", LENGTHS)


#: What was read of one text: the logits after it, and A and C of each layer, by name.
Read = dict[str, Tensor]


@PADDING
@DTYPES
@FAMILIES
def test_a_trace_is_as_near_the_truth_as_eager(
    task: str, family: str, dtype: torch.dtype, padding: str
) -> None:
    lengths = LENGTHS[padding]
    truth = _truth(family, task, dtype, lengths)
    eager = _eager(family, task, dtype, lengths)
    ours = [_of_trace(t) for t in _traced(_model(family, task, dtype), lengths, padding)]
    assert list(ours[0]) == list(truth[0])  # as many layers
    for name in truth[0]:
        three = (torch.cat([r[name].flatten() for r in reads]) for reads in (ours, eager, truth))
        assert_as_near(*three, of=name)


@DTYPES
@FAMILIES
def test_a_trace_changes_no_bit(task: str, family: str, dtype: torch.dtype) -> None:
    model = _model(family, task, dtype)
    runs = list[tuple[dict[str, Any], Tensor]]()

    def note(_: nn.Module, given: tuple[()], named: dict[str, Any], output: Any) -> None:
        assert not given
        runs.append((named, output.logits))

    with model.register_forward_hook(note, with_kwargs=True):
        _traced(model, LENGTHS["left"], "left")
    ch.register_attention()
    model.set_attn_implementation("clearhead")
    [(named, inside)] = runs
    with torch.no_grad():
        assert torch.equal(model(**named).logits, inside)


@pytest.mark.parametrize("family", UNSEEN)
def test_layers_that_are_not_seen_are_refused(family: str) -> None:
    with pytest.raises(ch.TraceError, match="cannot be traced"):
        ch.trace(tiny_model(family, "causal"), text())


# ---------------------------------------------------------------------------------------- the runs


@lru_cache(maxsize=1)
def _made(family: str, task: str) -> PreTrainedModel:
    return tiny_model(family, task)


def _model(family: str, task: str, dtype: torch.dtype) -> PreTrainedModel:
    return deepcopy(_made(family, task)).to(dtype)


@lru_cache(maxsize=4)
def _truth(family: str, task: str, dtype: torch.dtype, lengths: tuple[int, ...]) -> list[Read]:
    """What eager makes of each text alone in float64, of weights rounded to a dtype."""
    model = _model(family, task, dtype).double()
    model.set_experts_implementation("eager")  # experts' grouped products know no float64
    with pytest.MonkeyPatch.context() as patch:
        # where a model asks for float32 in the midst of a run, to be exact, float64 is more so
        patch.setattr(torch, "float32", torch.float64)
        patch.setattr(Tensor, "float", Tensor.double)
        return [_of_eager(model, ids) for ids in _texts(lengths)]


@lru_cache(maxsize=4)
def _eager(family: str, task: str, dtype: torch.dtype, lengths: tuple[int, ...]) -> list[Read]:
    """What eager makes of each text alone."""
    model = _model(family, task, dtype)
    return [_of_eager(model, ids) for ids in _texts(lengths)]


def _texts(lengths: tuple[int, ...]) -> list[Tensor]:
    rows = text(rows=len(lengths))
    return [row[:length] for row, length in zip(rows, lengths, strict=True)]


def _traced(model: PreTrainedModel, lengths: tuple[int, ...], padding: str) -> list[Any]:
    """Traces of several texts in one batch."""
    width = max(lengths)
    ids = torch.ones(len(lengths), width, dtype=torch.long)
    keep = torch.zeros(len(lengths), width, dtype=torch.bool)
    for row, own in enumerate(_texts(lengths)):
        place = slice(width - len(own), width) if padding == "left" else slice(len(own))
        ids[row, place], keep[row, place] = own, True
    mask = None if padding == "none" else keep
    if not model.config.is_encoder_decoder:
        return ch.trace(model, ids, attention_mask=mask)
    targets = torch.cat([target(own[None]) for own in _texts(lengths)])
    return ch.trace(model, ids, attention_mask=mask, target=targets)


def _of_trace(traced: Any) -> Read:
    last = traced.decoder if hasattr(traced, "cross") else traced
    read = {"logits": last.next_logits}
    for part, stack in parts(traced):
        for number, layer in enumerate(part.layers):
            read[f"A of layer {number}, {stack}"] = part[layer].weights.to_dense()
            read[f"C of layer {number}, {stack}"] = part[layer].context
    return read


def _of_eager(model: PreTrainedModel, ids: Tensor) -> Read:
    run = eager_run(model, ids[None])
    read = {"logits": run.output.logits[0, -1]}
    stacks = ("encoder", "decoder", "cross") if model.config.is_encoder_decoder else ("all",)
    for stack in stacks:
        for number, call in enumerate(run.stack(stack)):
            read[f"A of layer {number}, {stack}"] = call.weights[0]
            read[f"C of layer {number}, {stack}"] = call.context[0]
    return read
