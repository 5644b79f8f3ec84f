"""What any model must do to be traced or edited, as a suite: a model supplies itself.

    class TestMine(TapContract):
        @pytest.fixture
        def model(self) -> nn.Module:
            return MyModel()

The model may be anything that :func:`clearhead.tracing.models.traceable` takes, with two layers or
more, a vocabulary of 99 or more and logits that depend on every layer. Weights should be large
enough that attention is not flat. ``ids`` may be overridden too, and ``source_length`` for an
encoder-decoder, whose target ``ids`` then are.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from clearhead.errors import TraceError
from clearhead.pipeline.tap import TAPPED, Site, Tap, tapping
from clearhead.tracing.models import Source, TraceableModel, traceable
from clearhead.tracing.trace import trace
from tests.accuracy import Yardstick
from tests.tracing.shapes import dense_bias
from tests.tracing.taps import Cutting, Reading, Replacing, layers_of, run, state

__all__ = ["TapContract"]

REPLACEABLE = tuple(name for name in TAPPED if name != "logsumexp")


class TapContract:
    """What must hold at the tap, whatever the model."""

    @pytest.fixture
    def ids(self, generator: torch.Generator) -> Tensor:
        return torch.randint(3, 99, (1, 9), generator=generator)

    @pytest.fixture
    def source_length(self) -> int | None:
        """Tokens of the source; None for a model that reads one text."""
        return None

    @pytest.fixture
    def source(self, source_length: int | None, generator: torch.Generator) -> Tensor | None:
        if source_length is None:
            return None
        return torch.randint(3, 99, (1, source_length), generator=generator)

    @pytest.fixture
    def watched(self, model: nn.Module) -> TraceableModel:
        return traceable(model)

    @pytest.fixture
    def run(self, watched: TraceableModel, ids: Tensor, source: Tensor | None):
        """Run the model under taps, on this test's ids."""
        return lambda *taps: run(watched, ids, *taps, source=source)

    @pytest.fixture
    def traced(self, model: nn.Module, ids: Tensor, source: Tensor | None):
        """Trace the model on this test's ids; every layer by its site."""
        given = (ids, None) if source is None else (source, ids)
        return lambda **how: layers_of(trace(model, given[0], target=given[1], **how))

    @pytest.fixture
    def read(self, run) -> Reading:
        reading = Reading()
        run(reading)
        return reading

    # --------------------------------------------------------------------- what arrives, and when

    def test_each_quantity_arrives_once_a_site_in_the_stated_order(self, watched, read):
        assert len(watched.sites()) >= 2
        assert read.seen == [(site, name) for site in watched.sites() for name in TAPPED]
        assert list(read.rules) == list(watched.sites())

    def test_sites_are_numbered_within_their_kind_and_name_a_module(self, model, watched):
        modules = dict(model.named_modules())
        kinds: dict[str, list[int]] = {}
        for site in watched.sites():
            assert site.name in modules
            kinds.setdefault(site.kind, []).append(site.layer)
        assert all(layers == list(range(len(layers))) for layers in kinds.values())

    @pytest.mark.parametrize("batch", [1, 2])
    @pytest.mark.parametrize("length", [1, 2, 9])
    def test_shapes_and_dtypes_are_the_stated_ones(
        self, watched, source_length, generator, batch, length
    ):
        reading, sizes = Reading(), {"n": length, "m": source_length}
        ids, source = (
            None if size is None else torch.randint(3, 99, (batch, size), generator=generator)
            for size in sizes.values()
        )
        run(watched, ids, reading, source=source)
        for site in watched.sites():
            got = {name: tuple(reading.values[site, name].shape) for name in TAPPED}
            heads, d_k = got["query"][1], got["query"][3]
            kv_heads, d_v = got["value"][1], got["value"][3]
            d_model, (n, m) = got["attention_input"][2], _sizes(site, **sizes)
            assert heads % kv_heads == 0
            assert got == {
                "attention_input": (batch, n, d_model),
                "query": (batch, heads, n, d_k),
                "key": (batch, kv_heads, m, d_k),
                "value": (batch, kv_heads, m, d_v),
                "logsumexp": (batch, heads, n),
                "context": (batch, heads, n, d_v),
                "output": (batch, n, d_model),
            }
            dtypes = {reading.values[site, name].dtype for name in REPLACEABLE}
            assert dtypes == {torch.float32}
            assert reading.values[site, "logsumexp"].dtype == torch.float32

    def test_context_and_logsumexp_are_what_the_rule_makes_of_query_key_and_value(
        self, watched, ids, source_length, read
    ):
        for site in watched.sites():
            rule, (n, m) = read.rules[site], _sizes(site, ids.shape[1], source_length)
            query, key, value = (read.values[site, name] for name in ("query", "key", "value"))
            allowed = None
            if rule.mask is not None:
                sizes = {"queries": n, "keys": m, "batch": len(ids), "heads": query.shape[1]}
                allowed = rule.mask.to_dense(**sizes, query_start=rule.query_start)
            kind = {"scale": rule.scale, "softcap": rule.softcap, "bias": dense_bias(rule, (n, m))}
            truth = Yardstick(query, key, value, allowed=allowed, sinks=rule.sinks, **kind)
            truth.assert_context(read.values[site, "context"])
            truth.assert_logsumexp(read.values[site, "logsumexp"])

    def test_output_is_the_context_through_the_output_projection(self, watched, read):
        for site in watched.sites():
            projection = watched.output_projection(site)
            assert projection is not None
            context = read.values[site, "context"]
            assert projection.weight.shape[1] == context.shape[1] * context.shape[3]
            joined = context.transpose(1, 2).flatten(2)
            assert torch.equal(projection(joined), read.values[site, "output"])

    # ------------------------------------------------------------------------ reading and replacing

    def test_reading_leaves_the_logits_bit_for_bit(self, run):
        assert torch.equal(run(Reading(), Tap()), run())

    @pytest.mark.parametrize("quantity", REPLACEABLE)
    def test_a_replacement_reaches_the_logits(self, watched, generator, quantity, run):
        before = run()

        def noisy(value: Tensor) -> Tensor:
            return value + torch.randn(value.shape, generator=generator)

        for site in watched.sites():
            after = run(Replacing(site, quantity, noisy))
            assert (after - before).abs().max() > 1e-4, site

    @pytest.mark.parametrize("quantity", REPLACEABLE)
    def test_the_same_values_in_another_tensor_change_no_bit(self, watched, quantity, run):
        before = run()
        for site in watched.sites():
            after = run(Replacing(site, quantity, torch.clone))
            assert torch.equal(after, before), site

    def test_another_rule_reaches_the_logits(self, watched, read, run, traced):
        before, found = run(), traced()
        for site in watched.sites():
            reading, n = Reading(), len(found[site].queries)
            # a key that hardly counts would hardly be missed
            strongest = int(found[site].weights[:, n - 1].sum(0).argmax())
            after = run(Cutting(site, query=n - 1, key=strongest), reading)
            assert (after - before).abs().max() > 1e-4, site
            old, new = (found.values[site, "context"] for found in (read, reading))
            # only the row that was cut has another context, in this layer
            assert not torch.equal(old[:, :, n - 1], new[:, :, n - 1])
            assert (old[:, :, : n - 1] - new[:, :, : n - 1]).abs().max() < 1e-5

    def test_the_same_rule_written_anew_changes_no_bit(self, run):
        tap = Tap()
        tap.rule = lambda _site, rule: replace(rule)
        assert torch.equal(run(tap), run())

    @pytest.mark.parametrize("quantity", REPLACEABLE)
    def test_a_replacement_of_another_shape_is_an_error(self, watched, read, quantity, run):
        site = watched.sites()[-1]
        shape = tuple(read.values[site, quantity].shape)
        with pytest.raises(TraceError) as caught:
            run(Replacing(site, quantity, lambda value: value[..., :-1]))
        cpu = torch.device("cpu")
        expected = (shape, torch.float32, cpu)
        got = ((*shape[:-1], shape[-1] - 1), torch.float32, cpu)
        assert str(caught.value) == (
            f"a replacement of {quantity} in layer {site.layer} ({site.name}) must keep shape, "
            f"dtype and device {expected}, got {got}"
        )

    def test_logsumexp_is_only_for_reading(self, watched, run):
        site = watched.sites()[0]
        with pytest.raises(TraceError) as caught:
            run(Replacing(site, "logsumexp", torch.clone))
        assert str(caught.value) == (
            f"logsumexp of layer {site.layer} ({site.name}) is only for reading: "
            "replace query, key, value, context or the rule instead"
        )

    def test_taps_see_what_those_before_them_let_through(self, watched, run):
        site = watched.sites()[0]
        doubled = Replacing(site, "context", lambda value: 2 * value)
        before, after, inner = Reading(), Reading(), Reading()
        with tapping(before, doubled), tapping(after):
            run(inner)
        place = (site, "context")
        assert torch.equal(after.values[place], 2 * before.values[place])
        assert torch.equal(inner.values[place], after.values[place])

    # ------------------------------------------------------------------------- nothing stays behind

    def test_everything_is_as_before_after_a_run(self, model, run, traced):
        with _half_training(model):
            before = state(model)
            run(Reading())
            assert state(model) == before
            traced()
            assert state(model) == before

    def test_everything_is_as_before_after_an_exception(self, model, watched, run):
        def stop(value: Tensor) -> Tensor:
            raise ZeroDivisionError

        first, last = watched.sites()[0], watched.sites()[-1]
        clean = run()
        with _half_training(model):
            before = state(model)
            for site, quantity in ((first, "attention_input"), (last, "context"), (last, "output")):
                with pytest.raises(ZeroDivisionError):
                    run(Replacing(site, quantity, stop))
                assert state(model) == before
        assert torch.equal(run(), clean)

    def test_training_flags_change_nothing(self, model, run):
        clean = run()
        model.train()
        assert torch.equal(run(), clean)

    def test_a_trace_inside_a_run_leaves_the_run_going(self, watched, ids, source, traced):
        outer, read = Reading(), None if source is None else Source(source, None)
        last = torch.tensor([ids.shape[1] - 1])
        with torch.no_grad(), watched.running(), tapping(outer):
            found = traced()
            once = list(outer.seen)
            watched.logits(ids, attention_mask=None, last=last, source=read)
        expected = [(site, name) for site in watched.sites() for name in TAPPED]
        assert once == expected
        assert outer.seen == 2 * expected
        assert all(layer.projection is not None for layer in found.values())

    def test_a_trace_holds_what_the_tap_saw(self, watched, traced, read):
        found = traced(keep=("attention_input", "context", "output"))
        for site in watched.sites():
            for name in TAPPED:
                assert torch.equal(getattr(found[site], name), read.values[site, name][0]), name

    def test_what_is_made_again_has_the_bits_of_the_run(self, watched, traced, read):
        found = traced()
        for site in watched.sites():
            assert found[site].same_bits
            for name in ("context", "output"):
                assert torch.equal(getattr(found[site], name), read.values[site, name][0]), site


def _sizes(site: Site, n: int, m: int | None) -> tuple[int, int]:
    """Rows and columns of a site's matrices, for n tokens and a source of m."""
    if m is None:
        return n, n
    return {"self": (n, n), "cross": (n, m), "encoder": (m, m)}[site.kind]


@contextmanager
def _half_training(model: nn.Module) -> Iterator[None]:
    """Some modules in training mode and some not, as a person may have left them."""
    was = [part for part in model.modules() if part.training]
    for place, part in enumerate(model.modules()):
        part.training = place % 2 == 0
    try:
        yield
    finally:
        model.eval()
        for part in was:
            part.training = True
