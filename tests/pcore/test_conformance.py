"""The suites pass for all that is built in and find planted faults; own code has an identity."""

import sys
from dataclasses import dataclass
from functools import cache

import pytest
import torch
from torch import nn

from pcore.config import TrialConfig, canonical
from pcore.conformance import Check, check_encoding, check_task, format_checks
from pcore.encodings import ENCODINGS, ALiBi, Encoding, Learned, Rotary, Sinusoidal
from pcore.registry import source_hash
from pcore.tasks import TASKS, Batch, Contents
from pcore.tasks.addition import Addition
from pcore.tasks.strings import Copy

HERE = __name__


def failures(checks: list[Check]) -> dict[str, str]:
    return {check.name: check.detail for check in checks if not check.passed}


@cache
def checked(name: str) -> list[Check]:
    """The suite on an encoding, run once for all tests that look at it."""
    return check_encoding(name)


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_encoding_conforms(name):
    state = torch.get_rng_state()
    checks = checked(name)
    assert not failures(checks)
    assert len(checks) == 13
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("name", TASKS)
def test_every_task_conforms(name):
    assert not failures(check_task(name))


# Planted faults in encodings --------------------------------------------------------------------


class SeesTheFuture(Learned):
    def embed(self, ids):
        return super().embed(ids) + ids.float().mean(dim=1, keepdim=True)


class SeesPadding(Learned):
    def embed(self, ids):
        return super().embed(ids) * ids.shape[1] / 14


class SeesOtherExamples(Learned):
    def embed(self, ids):
        rows = super().embed(ids)
        return rows - rows.mean(dim=0)


class CountsRows(ALiBi):
    """A distance between row numbers of the score matrix instead of IDs."""

    def bias(self, query_ids, key_ids, layer):
        rows = torch.arange(query_ids.shape[1]).view(1, -1, 1).expand(*query_ids.shape)
        return super().bias(rows, key_ids, layer)


class UnseededWeights(Sinusoidal):
    def __init__(self, position, model, num_levels, rng):
        super().__init__(position, model, num_levels, rng)
        self.shift = nn.Parameter(torch.randn(model.d_model))

    def embed(self, ids):
        return super().embed(ids) + self.shift


class UnseededNoise(Sinusoidal):
    def embed(self, ids):
        return super().embed(ids) * (1 + 0.1 * torch.randn(1) * self.training)


class SaysInvariant(Sinusoidal):
    offset = "invariant"


class SaysDependent(Rotary):
    offset = "dependent"


class IgnoresItsBound(Learned):
    bounded = False


class LacksTheLastRow(Encoding):
    uses_ids = bounded = True
    offset = "dependent"

    def __init__(self, position, model, num_levels, rng):
        super().__init__(position, model, num_levels, rng)
        shape = (position.max_position, model.d_model)
        self.table = nn.Parameter(torch.randn(shape, generator=rng))

    def embed(self, ids):
        return self.table[ids].sum(dim=2)


class SaysNoIds(ALiBi):
    uses_ids = False


class DeadParameter(Rotary):
    def __init__(self, position, model, num_levels, rng):
        super().__init__(position, model, num_levels, rng)
        self.unused = nn.Parameter(torch.ones(3))


class Crashes(Encoding):
    def embed(self, ids):
        raise TypeError("no such thing\nsecond line")


class CrashesInTraining(Encoding):
    def embed(self, ids):
        if torch.is_grad_enabled():
            raise TypeError("no such thing")


class HeadsLast(ALiBi):
    def bias(self, query_ids, key_ids, layer):
        return super().bias(query_ids, key_ids, layer).movedim(1, 3)


class BiasInDouble(ALiBi):
    def bias(self, query_ids, key_ids, layer):
        return super().bias(query_ids, key_ids, layer).double()


@pytest.mark.parametrize(
    ("cls", "why"),
    [
        (HeadsLast, "bias returned (3, 5, 7, 2), expected B H Q T = (3, 2, 5, 7)"),
        (BiasInDouble, "bias returned torch.float64, expected torch.float32"),
        (Crashes, "TypeError: no such thing (test_conformance.py, line "),
    ],
)
def test_what_a_method_returns_is_checked_first(cls, why):
    (check,) = check_encoding(f"{HERE}:{cls.__name__}")
    assert check.name == "shapes"
    assert check.detail.startswith(why)


@pytest.mark.parametrize(
    ("cls", "rule"),
    [
        (SeesTheFuture, "causality"),
        (SeesPadding, "padding invariance"),
        (SeesPadding, "cached = uncached decoding"),
        (SeesOtherExamples, "examples apart"),
        (CountsRows, "targets only = everywhere"),
        (CountsRows, "cached = uncached decoding"),
        (UnseededWeights, "deterministic under seed"),
        (UnseededNoise, "deterministic under seed"),
        (SaysInvariant, "offset stated = measured"),
        (SaysDependent, "offset stated = measured"),
        (IgnoresItsBound, "ID bound"),
        (SaysNoIds, "uses_ids stated = measured"),
        (DeadParameter, "gradient reaches parameters"),
        (CrashesInTraining, "trains and evaluates"),
    ],
)
def test_a_planted_fault_is_found(cls, rule):
    name = f"{HERE}:{cls.__name__}"
    checks = checked(name)
    assert rule in failures(checks)
    report = format_checks(name, checks)
    assert f"FAIL  {rule}" in report
    assert "failed" in report.splitlines()[-1]


@pytest.mark.parametrize("cls", [SaysInvariant, SaysDependent, DeadParameter, UnseededNoise])
def test_a_fault_fails_its_own_rule_only(cls):
    assert len(failures(checked(f"{HERE}:{cls.__name__}"))) == 1


@pytest.mark.parametrize("name", ["rotori", f"{HERE}:Nothing", f"{HERE}:Batch", "no.module:X"])
def test_a_name_that_is_no_encoding_is_one_failed_check(name):
    (check,) = check_encoding(name)
    assert not check.passed
    assert check.detail.startswith("ValueError: ")


# Planted faults in tasks ------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class UnseededDigits(Addition):
    def draw(self, sizes, rng):
        return super().draw(sizes, torch.default_generator)


@dataclass(frozen=True, kw_only=True)
class UnderstatesIds(Addition):
    def max_relative_ids(self, length, second=None):
        return tuple(n - 1 for n in super().max_relative_ids(length, second))


@dataclass(frozen=True, kw_only=True)
class MissesEOS(Addition):
    def sample(self, sizes, rng):
        tokens, ids, mask = super().sample(sizes, rng)
        last = (tokens != 0).sum(dim=1, keepdim=True) - 1
        return Batch(tokens, ids, mask.scatter(1, last, False))


@dataclass(frozen=True, kw_only=True)
class HasAnEmptyLevel(Copy):
    def layout(self, shape):
        layout = super().layout(shape)
        layout.relative_ids[:] = [(-1,)] * len(layout.sources)
        return layout


@dataclass(frozen=True, kw_only=True)
class ReversesTheQuery(Addition):
    """What it shows is not what it reads."""

    reverse_query: bool = True


@dataclass(frozen=True, kw_only=True)
class DrawsTooNarrow(Addition):
    def draw(self, sizes, rng):
        symbols, shapes = super().draw(sizes, rng)
        return Contents(symbols[:, :, :-1], shapes)


@dataclass(frozen=True, kw_only=True)
class CountsSymbolsFromZero(Addition):
    def draw(self, sizes, rng):
        symbols, shapes = super().draw(sizes, rng)
        return Contents(symbols - 1, shapes)


@dataclass(frozen=True, kw_only=True)
class PlacesAnUnknownSymbol(Addition):
    def layout(self, shape):
        layout = super().layout(shape)
        layout.sources[-1] = "→"
        return layout


@dataclass(frozen=True, kw_only=True)
class NeedsMoreThanTheSize(Copy):
    """Shapes hold the number of digits of an answer, but the largest shape is the size alone."""

    def draw(self, sizes, rng):
        symbols, shapes = super().draw(sizes, rng)
        return Contents(symbols, torch.cat((shapes, shapes), dim=1))

    def layout(self, shape):
        length, _ = shape
        return super().layout((length,))


@dataclass(frozen=True, kw_only=True)
class AddsWithoutAnId(Copy):
    def layout(self, shape):
        layout = super().layout(shape)
        layout.relative_ids[-1] = ()
        return layout


@dataclass(frozen=True, kw_only=True)
class DoesNotEndTheQuery(Copy):
    def layout(self, shape):
        layout = super().layout(shape)
        layout.num_query = 0
        return layout


@dataclass(frozen=True, kw_only=True)
class WritesTheLastToken(Copy):
    def draw(self, sizes, rng):
        symbols, shapes = super().draw(sizes, rng)
        return Contents(torch.full_like(symbols, self.vocab.index[self.eos]), shapes)


@dataclass(frozen=True, kw_only=True)
class WritesASeparator(Copy):
    def draw(self, sizes, rng):
        symbols, shapes = super().draw(sizes, rng)
        return Contents(torch.full_like(symbols, self.vocab.index["="]), shapes)


@dataclass(frozen=True, kw_only=True)
class CutsTheAnswer(Addition):
    """Without the digit that a sum has more."""

    def layout(self, shape):
        layout = super().layout(shape)
        layout.sources.pop()
        layout.relative_ids.pop()
        return layout


@dataclass(frozen=True, kw_only=True)
class DrawsFlatShapes(Copy):
    def draw(self, sizes, rng):
        symbols, shapes = super().draw(sizes, rng)
        return Contents(symbols, shapes[:, 0])


@dataclass(frozen=True, kw_only=True)
class ParsesFlatShapes(Copy):
    def parse(self, query):
        symbols, shapes = super().parse(query)
        return Contents(symbols, shapes[0])


@dataclass(frozen=True, kw_only=True)
class CountsWhatLiesBeyond(Copy):
    """The last letter is that at the end of the widest example of the batch."""

    def respond(self, symbols, sizes):
        copied = symbols.clone()
        copied[torch.arange(len(symbols)), sizes[:, 0] - 1] = symbols[:, -1]
        return copied


@dataclass(frozen=True, kw_only=True)
class NeedsAnArgument(Addition):
    def __post_init__(self):
        raise ValueError("choose a colour")


@pytest.mark.parametrize(
    ("cls", "rule"),
    [
        (UnseededDigits, "deterministic under seed"),
        (UnderstatesIds, "num_tokens and max_relative_ids"),
        (MissesEOS, "sample = layout"),
        (ReversesTheQuery, "encode and decode"),
        (ParsesFlatShapes, "encode and decode"),
        (CountsWhatLiesBeyond, "examples apart"),
        (NeedsAnArgument, "constructs with defaults"),
    ],
)
def test_a_planted_fault_in_a_task_is_found(cls, rule):
    assert rule in failures(check_task(f"{HERE}:{cls.__name__}"))


@pytest.mark.parametrize(
    ("cls", "why"),
    [
        (DrawsTooNarrow, "but draw makes 3 fields of 1 symbols"),
        (CountsSymbolsFromZero, "where draw puts 0; 0 is PAD"),
        (WritesTheLastToken, "which is '$', the first or last token of an example"),
        (WritesASeparator, "the query holds '=', which layout places as a separator"),
        (PlacesAnUnknownSymbol, "'→', which is not in the vocabulary"),
        (AddsWithoutAnId, "with 0 relative IDs instead of 1: add(symbol, an ID for each level)"),
        (CutsTheAnswer, "is the end of the answer cut off?"),
        (HasAnEmptyLevel, "gives level 'position' the relative IDs (-1, -1"),
        (DoesNotEndTheQuery, "does not say where the query ends: call end_query() after '='"),
        (DrawsFlatShapes, "draw returned shapes of shape (32,), expected B Z"),
        (
            NeedsMoreThanTheSize,
            "layout((1,)), a shape from `largest_shape(self, length, second=None)` "
            "(override it if shapes have more numbers), raises ValueError: not",
        ),
    ],
)
def test_contents_that_do_not_fit_the_layout_are_the_one_failure(cls, why):
    failed = failures(check_task(f"{HERE}:{cls.__name__}"))
    assert list(failed) == ["contents hold the layout"]
    assert why in failed["contents hold the layout"]
    assert "(7 more checks need this one first)" in failed["contents hold the layout"]


def test_a_table_without_a_row_for_the_largest_id_is_told_its_size():
    failed = failures(checked(f"{HERE}:LacksTheLastRow"))
    assert failed["ID bound"].endswith("so a table has max_position + 1 rows")


# Own code: usable, and with an identity ---------------------------------------------------------


def test_built_in_trials_carry_no_source_hash():
    assert ".source" not in canonical(TrialConfig())


def test_a_class_without_a_file_is_refused():
    homeless = type("Homeless", (Learned,), {"__module__": "__main__nowhere"})
    sys.modules["__main__nowhere"] = type(sys)("__main__nowhere")
    try:
        with pytest.raises(ValueError, match="put the class in a file"):
            source_hash(homeless)
    finally:
        del sys.modules["__main__nowhere"]
