"""Reading a ``config.json`` so that no setting goes unnoticed.

Each key is *used* (read into a field), *harmless* (it changes no logit) or *refused by name*: a
setting that nobody here understands could change every number, so it is never skipped in silence.

What is refused is one of two. A setting that means something elsewhere, such as a scaling unknown
here, is left to whoever knows it. A value that means nothing anywhere, such as an epsilon of NaN or
a width of −1, is *nonsense*: no other reader of the file may go on with it either.
"""

import sys
from collections.abc import Collection, Mapping
from typing import cast

from clearhead.errors import CheckpointError

__all__ = ["ACTIVATIONS", "HARMLESS", "OFF", "ConfigKeys", "NonsenseError"]

#: Keys that any family's config may carry and that change no logit: names and versions, special
#: tokens, how to train, what to return, and how to generate.
HARMLESS = frozenset(
    """
    architectures _name_or_path name_or_path transformers_version transformers.js_config model_type
    dtype torch_dtype use_bfloat16 torchscript tf_legacy_loss tokenizer_class use_cache
    bos_token_id eos_token_id pad_token_id sep_token_id decoder_start_token_id
    initializer_range attention_dropout pretraining_tp chunk_size_feed_forward
    output_attentions output_hidden_states return_dict return_dict_in_generate output_scores
    id2label label2id num_labels _num_labels problem_type finetuning_task task_specific_params
    prefix output_past
    attn_implementation _attn_implementation _attn_implementation_autoset
    max_length min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty
    temperature top_k top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size
    encoder_no_repeat_ngram_size bad_words_ids num_return_sequences forced_bos_token_id
    forced_eos_token_id remove_invalid_values exponential_decay_length_penalty suppress_tokens
    begin_suppress_tokens
    """.split()  # noqa: SIM905, a paragraph reads better than sixty lines
)

#: What our activations are called in configs.
ACTIVATIONS: Mapping[str, str] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}

#: Settings of any family that are understood only where they are off.
OFF: Mapping[str, object] = {
    "is_encoder_decoder": False,
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_encoder_decoder": False,
    "pruned_heads": {},
}


_LONGEST = 2**63 - 1  # no tensor has more of anything

# Numbers that may be 0 in released models, though not in ours: no epsilon, nothing that turns, and
# in the keys of scaled positions the same as if nothing were said.
_MAY_BE_ZERO = frozenset(
    """
    rms_norm_eps layer_norm_eps layer_norm_epsilon partial_rotary_factor rotary_pct attn_scale
    mscale mscale_all_dim beta_fast beta_slow
    """.split()  # noqa: SIM905, a paragraph reads better than a list
)


class NonsenseError(CheckpointError):
    """Among a config's faults is a value that means nothing to any reader."""


class ConfigKeys:
    """The keys of a config, each read once by its name; what was not read is refused at the end.

    A key that is missing or null has its default. A reader of a faulty key notes the fault and
    hands back 1, so that all faults of a file come to light in one pass.

    Attributes:
        faults: what is wrong so far, one line a fault.
        nonsense: those of them that are nonsense, with those of all groups within.
    """

    def __init__(
        self,
        keys: Mapping[str, object],
        *,
        prefix: str = "",
        nonsense: list[str] | None = None,
    ) -> None:
        self._keys = {name: value for name, value in keys.items() if value is not None}
        self._null = {name for name, value in keys.items() if value is None}
        self._prefix = prefix
        self.faults: list[str] = []
        self.nonsense: list[str] = [] if nonsense is None else nonsense

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
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _LONGEST:
            return value
        return self._fault(name, "a positive whole number", value)

    def count(self, name: str, *, default: int) -> int:
        """A whole number of 0 or more."""
        value = self.value(name)
        if value is None:
            return default
        if _is_whole(value):
            return cast("int", value)
        return self._fault(name, "a whole number of 0 or more", value)

    def counts(self, name: str) -> list[int] | None:
        """A list of whole numbers of 0 or more; None where there is none."""
        value = self.value(name)
        listed = cast("list[int]", _listed(value))
        if value is None:
            return None
        if value == listed and all(map(_is_whole, listed)):
            return listed
        self._fault(name, "a list of whole numbers of 0 or more", value)
        return None

    def number(self, name: str, *, default: float | None = None) -> float:
        """A positive finite number; without a default the key must be there."""
        value = self.value(name)
        if value is None and default is not None:
            return default
        if _is_positive(value):
            return float(cast("float", value))
        if name in _MAY_BE_ZERO and value == 0 and not isinstance(value, bool):
            self.refuse(name, f"must be a positive number, got {value!r}")
            return 1
        return self._fault(name, "a positive number", value)

    def flag(self, name: str, *, default: bool) -> bool:
        """A setting that is on or off."""
        value = self.value(name)
        if value is None:
            return default
        if isinstance(value, bool):
            return value
        if value in (0, 1):  # another reader takes them for off and on
            self.refuse(name, f"must be true or false, got {value!r}")
            return default
        return bool(self._fault(name, "true or false", value))

    def maybe_size(self, name: str, *, default: int | None) -> int | None:
        """A positive whole number; None where the key is null, the default where it is missing."""
        if name in self._null:
            return None
        return default if name not in self._keys else self.size(name)

    def maybe_number(self, name: str, *, default: float | None = None) -> float | None:
        """A positive finite number; None where the key is null, the default where it is missing."""
        if name in self._null:
            return None
        return default if name not in self._keys else self.number(name)

    def numbers(self, name: str) -> tuple[float, ...]:
        """A list of positive finite numbers, at least one."""
        value = self.value(name)
        listed = _listed(value)
        if listed and all(_is_positive(number) for number in listed):
            return tuple(float(cast("float", number)) for number in listed)
        self._fault(name, "a list of positive numbers", value)
        return (1.0,)

    def names(self, name: str, known: Collection[str], *, count: int) -> list[str]:
        """A list of known words, so many of them; empty where there is none."""
        value = self.value(name)
        listed = _listed(value)
        if value is None:
            return []
        if len(listed) != count or not all(word in known for word in listed):
            words = " or ".join(map(repr, known))
            self.refuse(name, f"must be a list of {count} words {words}, got {value!r}")
            return []
        return cast("list[str]", listed)

    def activation(self, name: str, *, default: str) -> str:
        """One of our activations, by what configs call it."""
        value = self.value(name)
        value = default if value is None else value
        if isinstance(value, str) and value in ACTIVATIONS:
            return ACTIVATIONS[value]
        self.refuse(name, f"is {value!r}, only {', '.join(ACTIVATIONS)} are known")
        return "gelu"

    def only(self, name: str, known: object) -> None:
        """A setting of which one value is known; any other is a fault."""
        value = self.value(name)
        if value is not None and value != known:
            self.refuse(name, f"is {value!r}, only {known!r} is known")

    def refuse(self, name: str, why: str) -> None:
        """Note a fault of one key: a value that ours does not know, and others may."""
        self.faults.append(f"{self._prefix}{name} {why}")

    def mean_nothing(self, name: str, why: str) -> None:
        """Note a fault of one key: a value that is nonsense."""
        self.refuse(name, why)
        self.nonsense.append(self.faults[-1])

    def within(self, name: str) -> "ConfigKeys":
        """The keys of a group, to be read and finished on their own."""
        value = self.value(name)
        if value is not None and not isinstance(value, Mapping):
            self._fault(name, "a group of keys", value)
            value = None
        group = cast("Mapping[str, object]", value or {})
        return ConfigKeys(group, prefix=f"{name}.", nonsense=self.nonsense)

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
        if value is None:  # to another reader it may have a default
            self.refuse(name, f"must be {expected}, it is missing")
        else:
            self.mean_nothing(name, f"must be {expected}, got {value!r}")
        return 1


def _is_positive(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 < value <= sys.float_info.max


def _is_whole(value: object) -> bool:
    return type(value) is int and 0 <= value <= _LONGEST


def _listed(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []
