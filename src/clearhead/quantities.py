"""The quantities inside attention: one name for each, used by code, docs, command line and report.

The order is the order of computation. ``n`` counts queries, ``m`` counts keys. Where the field says
something else for a name, ``also_called`` has it: texts that call C "the output" mean ``context``;
here *output* is O alone.
"""

from dataclasses import dataclass

__all__ = ["QUANTITIES", "Quantity", "quantity"]


@dataclass(frozen=True, slots=True)
class Quantity:
    """One quantity inside attention.

    Attributes:
        symbol: the letter used in formulas, or an empty string.
        name: its name in code.
        shape: its shape for one sequence, without a batch axis.
        meaning: what it is, in one sentence.
        producer: the expression that makes it.
        cost: memory it takes for one layer when it is stored whole.
        also_called: what other tools call it.
    """

    symbol: str
    name: str
    shape: str
    meaning: str
    producer: str
    cost: str
    also_called: str = ""


QUANTITIES: tuple[Quantity, ...] = (
    Quantity(
        "X",
        "attention_input",
        "(n, d_model)",
        "What W_Q, W_K and W_V read: after the pre-norm, where there is one.",
        "norm(residual stream)",
        "n · d_model",
        "the input of the attention module, not the residual stream",
    ),
    Quantity(
        "Q",
        "query",
        "(heads, n, d_k)",
        "What each position asks with, as the dot product sees it: after rotation.",
        "rotate(X · W_Q)",
        "heads · n · d_k",
        "hook_q / hook_rot_q",
    ),
    Quantity(
        "K",
        "key",
        "(kv_heads, m, d_k)",
        "What each position is found by, after rotation; never repeated for grouped heads.",
        "rotate(X · W_K)",
        "kv_heads · m · d_k",
        "hook_k / hook_rot_k",
    ),
    Quantity(
        "V",
        "value",
        "(kv_heads, m, d_v)",
        "What is mixed; never repeated for grouped heads.",
        "X · W_V",
        "kv_heads · m · d_v",
        "hook_v",
    ),
    Quantity(
        "",
        "raw_scores",
        "(heads, n, m)",
        "Scaled products of queries and keys, before soft-cap, bias and mask.",
        "scale · Q · Kᵀ",
        "heads · n · m (made by tiles, never stored)",
    ),
    Quantity(
        "S",
        "scores",
        "(heads, n, m)",
        "What softmax sees: soft-capped, biased, −inf where masked.",
        "mask(softcap(raw_scores) + bias)",
        "heads · n · m (made by tiles, never stored)",
        "hook_attn_scores, logits",
    ),
    Quantity(
        "L",
        "logsumexp",
        "(heads, n)",
        "Natural log of the row sum of exp(S), sinks included; −inf for a fully masked row.",
        "log Σⱼ exp(Sᵢⱼ)",
        "heads · n",
        "lse",
    ),
    Quantity(
        "A",
        "weights",
        "(heads, n, m)",
        "Softmax of S: a row sums to 1 (less with a sink, 0 if everything is masked).",
        "exp(S − L)",
        "heads · n · m (made by tiles, never stored)",
        "pattern, hook_pattern, attentions",
    ),
    Quantity(
        "C",
        "context",
        "(heads, n, d_v)",
        "The context vectors: values mixed by the weights, in V's space, before W_O.",
        "A · V",
        "heads · n · d_v",
        "hook_z",
    ),
    Quantity(
        "",
        "head_outputs",
        "(heads, n, d_model)",
        "Each head's context through its slice of W_O.",
        "Cʰ · W_Oʰ",
        "heads · n · d_model",
        "hook_result",
    ),
    Quantity(
        "O",
        "output",
        "(n, d_model)",
        "What leaves the layer: all heads' contexts side by side through W_O, plus its bias.",
        "concat(C) · W_O + b_O",
        "n · d_model",
        "hook_attn_out",
    ),
    Quantity(
        "",
        "residual_update",
        "(n, d_model)",
        "What is added to the residual stream, where a family norms, scales or gates O first.",
        "gate · norm(O)",
        "n · d_model",
    ),
)

_BY_NAME = {entry.name: entry for entry in QUANTITIES}


def quantity(name: str) -> Quantity:
    """Look a quantity up by its name in code.

    Args:
        name: a name from the table, such as ``"context"``.

    Returns:
        The table's entry.

    Raises:
        KeyError: no quantity has this name; the message lists the names.
    """
    if name not in _BY_NAME:
        raise KeyError(f"no quantity is called {name!r}; the names are {', '.join(_BY_NAME)}")
    return _BY_NAME[name]
