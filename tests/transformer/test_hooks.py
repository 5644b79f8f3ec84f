"""Hooks are found wherever they were registered."""

import pytest
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

from clearhead.transformer.hooks import hooked, hooks_of
from tests.transformer.tiny_models import tiny


@pytest.mark.parametrize("kind", ["register_forward_hook", "register_forward_pre_hook"])
def test_a_module_s_own_hooks_count_and_not_its_parts(kind) -> None:
    module = nn.Sequential(nn.Linear(2, 2))
    handle = getattr(module[0], kind)(lambda *_: None)
    assert (hooked(module), hooked(module[0])) == (False, True)
    handle.remove()
    assert not hooked(module[0])


def test_hooks_are_told_at_any_time_and_those_on_all_modules_too() -> None:
    model = tiny("grouped heads")
    hooked = hooks_of(model)
    assert not hooked()
    for begin in (
        model.register_forward_hook,
        model.layers[1].attention.to_key.register_forward_pre_hook,
        register_module_forward_hook,
    ):
        handle = begin(lambda *_: None)
        assert hooked()
        handle.remove()
        assert not hooked()
