"""What stands under the numbers: how each is made, and what it is not."""

from collections.abc import Mapping, Sequence

from clearhead.report.documents.parts import Documents
from clearhead.report.figures import counted, percent
from clearhead.report.parts import FirstToken, HeadTable, Measure, Note
from clearhead.report.visible import visible

__all__ = ["notes_for", "notes_for_answer"]

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
_READ_BY_ANSWER = Note(
    "answer",
    "The shares by passage say which positions' vectors the answer's tokens read, each once it"
    " stood there, on the way to the next. They are no proof of what caused the answer: a"
    " position's vector already mixes what earlier layers gathered from before it.",
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


def notes_for_answer(
    documents: Documents, plain: Mapping[str | None, Sequence[str]]
) -> tuple[Note, ...]:
    """Say what the shares of an answer are, and what was made of control tokens in its prompt.

    Args:
        documents: the answer, and where its tokens drew from.
        plain: names of control tokens that were read as plain text, by the passage or message;
            None is the answer, and an empty name the name of a passage.
    """
    notes = [_READ_BY_ANSWER]
    for name, found in plain.items():
        unnamed = "the answer" if name is None else "the name of a passage"
        where = f"{visible(name)!r:.80}" if name else unnamed
        names = ", ".join(visible(one) for one in sorted(set(found)))
        notes.append(
            Note(
                "control tokens",
                f"What reads {names} in {where} is the name of a control token of this model; it"
                " was read as plain text, so that nothing in there could end or begin a message.",
            )
        )
    if documents.answer.generated and documents.answer.ended_by != "end_token":
        count = documents.answer.stop - documents.answer.start
        tokens = counted(count, "token")
        notes.append(
            Note("answer", f"The answer was cut at {tokens}; max_new_tokens changes that.")
        )
    return tuple(notes)


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
