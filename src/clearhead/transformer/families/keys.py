"""Reading a ``config.json`` so that no setting goes unnoticed.

Each key is *used* (read into a field), *harmless* (it changes no logit) or *refused by name*: a
setting that nobody here understands could change every number, so it is never skipped in silence.
"""

import math
from collections.abc import Collection, Mapping
from typing import Any, cast

from clearhead.positions.scaling import LinearScaling, Llama3Scaling, RotaryScaling

__all__ = ["HARMLESS", "OFF", "ConfigKeys", "rotary_fields"]

#: Keys that any family's config may carry and that change no logit: names and versions, special
#: tokens, how to train, what to return, and how to generate.
HARMLESS = frozenset(
    """
    architectures _name_or_path name_or_path transformers_version transformers.js_config model_type
    dtype torch_dtype use_bfloat16 torchscript tf_legacy_loss tokenizer_class use_cache
    bos_token_id eos_token_id pad_token_id sep_token_id decoder_start_token_id
    initializer_range attention_dropout pretraining_tp chunk_size_feed_forward
    output_attentions output_hidden_states return_dict return_dict_in_generate output_scores
    id2label label2id num_labels problem_type finetuning_task task_specific_params prefix
    attn_implementation _attn_implementation _attn_implementation_autoset
    max_length min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty
    temperature top_k top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size
    encoder_no_repeat_ngram_size bad_words_ids num_return_sequences forced_bos_token_id
    forced_eos_token_id remove_invalid_values exponential_decay_length_penalty suppress_tokens
    begin_suppress_tokens
    """.split()  # noqa: SIM905, a paragraph reads better than sixty lines
)

#: Settings of any family that are understood only where they are off.
OFF: Mapping[str, object] = {
    "is_encoder_decoder": False,
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_encoder_decoder": False,
    "pruned_heads": {},
}


class ConfigKeys:
    """The keys of a config, each read once by its name; what was not read is refused at the end.

    A key that is missing or null has its default. A reader of a faulty key notes the fault and
    hands back 1, so that all faults of a file come to light in one pass.

    Attributes:
        faults: what is wrong so far, one line a fault.
    """

    def __init__(self, keys: Mapping[str, object], *, prefix: str = "") -> None:
        self._keys = {name: value for name, value in keys.items() if value is not None}
        self._prefix = prefix
        self.faults: list[str] = []

    def __len__(self) -> int:
        return len(self._keys)

    def value(self, name: str) -> object:
        """Whatever stands under a key, or None; the key counts as read."""
        return self._keys.pop(name, None)

    def size(self, name: str, *, default: int | None = None) -> int:
        """A positive whole number; without a default the key must be there."""
        value = self.value(name)
        if value is None and default is not None:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        return self._fault(name, "a positive whole number", value)

    def number(self, name: str, *, default: float | None = None) -> float:
        """A positive finite number; without a default the key must be there."""
        value = self.value(name)
        if value is None and default is not None:
            return default
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf:
            return float(value)
        return self._fault(name, "a positive number", value)

    def flag(self, name: str, *, default: bool) -> bool:
        """A setting that is on or off."""
        value = self.value(name)
        if value is None:
            return default
        return value if isinstance(value, bool) else bool(self._fault(name, "true or false", value))

    def only(self, name: str, known: object) -> None:
        """A setting of which one value is known; any other is a fault."""
        value = self.value(name)
        if value is not None and value != known:
            self.refuse(name, f"is {value!r}, only {known!r} is known")

    def refuse(self, name: str, why: str) -> None:
        """Note a fault of one key."""
        self.faults.append(f"{self._prefix}{name} {why}")

    def within(self, name: str) -> "ConfigKeys":
        """The keys of a group, to be read and finished on their own."""
        value = self.value(name)
        if value is not None and not isinstance(value, Mapping):
            self._fault(name, "a group of keys", value)
            value = None
        return ConfigKeys(cast("Mapping[str, object]", value or {}), prefix=f"{name}.")

    def finish(self, *, harmless: Collection[str] = ()) -> list[str]:
        """Refuse by name every key that was not read, and give all faults.

        Args:
            harmless: keys that need no reader because they change no logit.

        Returns:
            One line a fault, the readers' own first.
        """
        unknown = sorted(self._keys.keys() - set(harmless))
        return self.faults + [
            f"{self._prefix}{name} is not known here, got {self._keys[name]!r}" for name in unknown
        ]

    def _fault(self, name: str, expected: str, value: object) -> int:
        got = "it is missing" if value is None else f"got {value!r}"
        self.refuse(name, f"must be {expected}, {got}")
        return 1


def rotary_fields(keys: ConfigKeys, *, context: int) -> dict[str, Any]:
    """Read base and scaling of rotary positions, in the new spelling or the old one.

    New: ``rope_parameters`` holds everything. Old: ``rope_theta`` stands alone, and
    ``rope_scaling`` may stretch it.

    Args:
        keys: the config.
        context: number of positions, for a scaling that does not name the original one.

    Returns:
        The fields ``rotary_theta`` and ``rotary_scaling``.
    """
    new, old = keys.within("rope_parameters"), keys.within("rope_scaling")
    if new and old:
        keys.faults.append("rope_parameters and rope_scaling are both set, only one of them may be")
    group = old or new
    theta = group.number("rope_theta", default=keys.number("rope_theta", default=10_000.0))
    keys.only("partial_rotary_factor", 1.0)
    group.only("partial_rotary_factor", 1.0)
    scaling = _scaling(group, context)
    keys.faults += group.finish()
    return {"rotary_theta": theta, "rotary_scaling": scaling}


def _scaling(group: ConfigKeys, context: int) -> RotaryScaling | None:
    kind, older_name = group.value("rope_type"), group.value("type")
    match kind or older_name or "default":
        case "default":
            return None
        case "linear":
            return LinearScaling(group.number("factor"))
        case "llama3":
            return Llama3Scaling(
                factor=group.number("factor"),
                low_frequency_factor=group.number("low_freq_factor"),
                high_frequency_factor=group.number("high_freq_factor"),
                original_context=group.size("original_max_position_embeddings", default=context),
            )
        case other:
            group.refuse("rope_type", f"is {other!r}, only default, linear and llama3 are known")
            return None
