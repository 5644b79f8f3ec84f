"""What stands under the numbers: how each is made, and what it is not."""

from clearhead.report.figures import percent
from clearhead.report.parts import FirstToken, HeadTable, Measure, Note

__all__ = ["notes_for"]

_KOBAYASHI = (
    "Kobayashi et al. 2020, Attention is Not Only a Weight:"
    " Analyzing Transformers with Vector Norms"
)
_XIAO = "Xiao et al. 2023, Efficient Streaming Language Models with Attention Sinks"
_JAIN = "Jain and Wallace 2019, Attention is not Explanation"

_CONTRIBUTION = Note(
    "contribution",
    "Contribution = weight × length of the transformed value, ‖A · v · W_O‖: how much a head"
    " brought from a source, not only how hard it looked.",
    _KOBAYASHI,
)
_SHARE = {
    "contribution": Note(
        "share",
        "Share = a source's contributions, summed over the chosen layers and heads, over the sum"
        " for all sources.",
    ),
    "attention": Note(
        "share",
        "Share = a source's weights, summed over the chosen layers and heads, over the sum for all"
        " sources.",
    ),
}
_NOT_AN_EXPLANATION = Note(
    "limits",
    "A weight is not an explanation: it says which position's vector was read, not proof of cause."
    " That vector already mixes what earlier layers gathered. To know what matters, cut the link"
    " and see what changes.",
    _JAIN,
)


def notes_for(by: Measure, heads: HeadTable, first_token: FirstToken) -> tuple[Note, ...]:
    """Choose the notes a report needs.

    Args:
        by: the measure the shares follow.
        heads: the strongest links.
        first_token: what rests on the first token, and what it brings.

    Returns:
        The notes, the one about first tokens only where it matters.
    """
    mostly_first = 2 * heads.reading_first_token > len(heads.rows)
    sink = (_first_token_note(first_token),) if mostly_first or first_token.soaks else ()
    return (*sink, _CONTRIBUTION, _SHARE[by], _NOT_AN_EXPLANATION)


def _first_token_note(first_token: FirstToken) -> Note:
    takes, brings = first_token.attention, first_token.contribution_share
    told = "First tokens often soak up attention that a head has no other use for"
    if first_token.soaks and brings is not None:
        little = "little" if 2 * brings < takes else "less than their weights suggest"
        told = (
            f"First tokens soak up attention that a head has no other use for, but bring {little}"
        )
    measured = f"here it takes {percent(takes)} of the attention"
    if brings is not None:
        measured = f"{measured} and brings {percent(brings)} of the contribution"
    return Note("first token", f"{told}: {measured}.", f"{_XIAO}; Kobayashi et al. 2020")
