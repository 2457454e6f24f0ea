"""The checks pass for all that is shipped and find planted faults, of which they say what to do."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from pcore.config import TrialConfig, override
from pcore.conformance import Check, check, format_checks, require_sound
from pcore.encodings import ENCODINGS, ALiBi, Encoding, Learned, Rotary, Sinusoidal
from pcore.mixing import ATTENTIONS, Attention, GatedLinear, Mixer, Softmax
from pcore.model import MIXERS
from pcore.tasks import TASKS, Batch, Task
from pcore.tasks.addition import Addition
from pcore.tasks.strings import Copy

HERE = __name__
KINDS = {Encoding: "encoding", Attention: "attention", Mixer: "mixer", Task: "task"}


def failures(checks: list[Check]) -> dict[str, str]:
    return {found.name: found.detail for found in checks if not found.passed}


@pytest.mark.parametrize(
    ("kind", "name", "count"),
    [
        *(("encoding", name, 13) for name in ENCODINGS),
        *(("attention", name, 10) for name in ATTENTIONS),
        *(("mixer", name, 9) for name in MIXERS),
        *(("task", name, 8) for name in TASKS),
    ],
)
def test_what_is_shipped_conforms(kind, name, count):
    state = torch.get_rng_state()
    checks = check(kind, name)
    assert not failures(checks)
    assert len(checks) == count
    assert torch.equal(state, torch.get_rng_state())


# Planted faults in encodings --------------------------------------------------------------------


class SeesTheFuture(Learned):
    def embed(self, ids):
        return super().embed(ids) + ids.float().mean(dim=1, keepdim=True)


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


class IgnoresItsBound(Learned):
    bounded = False


class LacksTheLastRow(Encoding):
    uses_ids = bounded = True

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


class HeadsLast(ALiBi):
    def bias(self, query_ids, key_ids, layer):
        return super().bias(query_ids, key_ids, layer).movedim(1, 3)


class BiasInDouble(ALiBi):
    def bias(self, query_ids, key_ids, layer):
        return super().bias(query_ids, key_ids, layer).double()


# Planted faults in attention and mixers ---------------------------------------------------------


class AttendsToTheFuture(Attention):
    def forward(self, scores, visible, queries):
        return scores.softmax(dim=3)


class OverQueries(Attention):
    def forward(self, scores, visible, queries):
        return scores.masked_fill(~visible, -torch.inf).softmax(dim=2)


class Exponents(Attention):
    """Shares of sums of exponentials, which overflow or vanish."""

    def forward(self, scores, visible, queries):
        weights = (scores * visible).exp() * visible
        return weights / weights.sum(dim=3, keepdim=True)


class LooseTensor(Softmax):
    """A cap per head that nobody trains."""

    def __init__(self, config, layer, rng):
        super().__init__(config, layer, rng)
        self.cap = torch.full((config.num_heads, 1, 1), 10.0)

    def forward(self, scores, visible, queries):
        return super().forward(self.cap * (scores / self.cap).tanh(), visible, queries)


class SaysSeparable(Softmax):
    """Sharper, the longer the longest row of a batch is."""

    def forward(self, scores, visible, queries):
        return super().forward(scores * scores.shape[3] / 14, visible, queries)


class Forgets(GatedLinear):
    """Its state is lost between two steps of decoding."""

    def step(self, x, ids, encoding, past):
        return super().step(x, ids, encoding, None)


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
class TellsTheAnswer(Copy):
    """Each symbol of the response has its value as ID."""

    def sample(self, sizes, rng):
        tokens, ids, mask = super().sample(sizes, rng)
        return Batch(tokens, torch.where(mask.unsqueeze(2), tokens.unsqueeze(2), ids), mask)


@dataclass(frozen=True, kw_only=True)
class NeedsAnArgument(Addition):
    def __post_init__(self):
        raise ValueError("choose a colour")


# Which rule finds them --------------------------------------------------------------------------

FAULTS = {
    SeesTheFuture: ("causality", "token 0 sees what comes after it"),
    SeesOtherExamples: ("examples apart", "an example sees the others"),
    CountsRows: ("targets only = everywhere", "fewer queries than keys"),
    UnseededWeights: ("deterministic under seed", "two models of one seed start with different"),
    UnseededNoise: ("deterministic under seed", "logits in training depend on the global random"),
    IgnoresItsBound: ("ID bound", "IndexError: "),
    LacksTheLastRow: ("ID bound", "so a table has max_position + 1 rows"),
    SaysNoIds: ("stated = measured", "if that is meant, write uses_ids = True"),
    DeadParameter: ("gradient reaches parameters", "no gradient reaches unused"),
    HeadsLast: ("shapes", "bias returned (3, 5, 7, 2), expected B H Q T = (3, 2, 5, 7)"),
    BiasInDouble: ("shapes", "bias returned torch.float64, expected torch.float32"),
    Crashes: ("shapes", "TypeError: no such thing (test_conformance.py, line "),
    AttendsToTheFuture: ("weights", "a key that must not be seen gets the weight 0."),
    OverQueries: ("weights", "a query sees the other queries (change scores first, mask last"),
    Exponents: ("weights", "weights are not finite where all scores are near 100"),
    LooseTensor: ("gradient reaches parameters", "cap is a plain tensor, neither trained nor"),
    SaysSeparable: ("rows cut = rows padded", "rows cut at their own length"),
    Forgets: ("cached = uncached decoding", "decoding with a cache"),
    UnseededDigits: ("deterministic under seed", "sampling draws from the global random state"),
    UnderstatesIds: ("num_tokens and max_relative_ids", "IDs up to (2,), max_relative_ids=(1,)"),
    TellsTheAnswer: ("IDs tell nothing of the response", "have the same IDs up to the response"),
    MissesEOS: ("drawn = typed", "typed it has other response_mask than drawn"),
    NeedsAnArgument: ("constructs with defaults", "ValueError: choose a colour"),
}


ALONE = (DeadParameter, UnseededNoise)  # no other rule finds them


@pytest.mark.parametrize("cls", FAULTS)
def test_a_planted_fault_is_found_and_the_report_says_what_to_change(cls):
    rule, why = FAULTS[cls]
    kind = next(kind for base, kind in KINDS.items() if issubclass(cls, base))
    checks = check(kind, f"{HERE}:{cls.__name__}")
    assert why in failures(checks)[rule]
    assert len(failures(checks)) == 1 or cls not in ALONE
    report = format_checks(cls.__name__, checks)
    assert f"FAIL  {rule}" in report
    assert "failed" in report.splitlines()[-1]


FIELDS = {Encoding: "position.encoding", Attention: "model.attention", Mixer: "model.mixer"}


class LastLayerSeesTheFuture(Softmax):
    """Nothing that a small model of other settings shows."""

    def __init__(self, config, layer, rng):
        super().__init__(config, layer, rng)
        self.seen = layer == 2
        assert config.d_model == 96

    def forward(self, scores, visible, queries):
        return super().forward(scores, visible | self.seen, queries)


class GateOnTheFuture(Mixer):
    """Without effect until it is trained."""

    def __init__(self, config, layer, rng):
        super().__init__(config, layer, rng)
        self.ahead = nn.Parameter(torch.zeros(()))

    def mix(self, x, ids, encoding):
        return x + self.ahead * x.roll(-1, dims=1)


class NoisyAnswers(Softmax):
    def forward(self, scores, visible, queries):
        return super().forward(scores + torch.randn(scores.shape), visible, queries)


class Refuses(Softmax):
    def __init__(self, config, layer, rng):
        raise RuntimeError("a multiple of 64")


class Anneals(Softmax):
    """Seeded, stored and resumable, but another in each step of training."""

    def __init__(self, config, layer, rng):
        super().__init__(config, layer, rng)
        self.register_buffer("step", torch.zeros(()))

    def forward(self, scores, visible, queries):
        self.step += self.training
        return super().forward(scores * (1 + 1 / (1 + self.step)), visible, queries)


class Drops(Softmax):
    def forward(self, scores, visible, queries):
        return nn.functional.dropout(super().forward(scores, visible, queries), 0.1, self.training)


UNSOUND = {
    **{SeesTheFuture: "causality", AttendsToTheFuture: "causality", SaysSeparable: "causality"},
    **{LastLayerSeesTheFuture: "causality", GateOnTheFuture: "causality"},
    **{SeesOtherExamples: "examples apart", CountsRows: "targets only = everywhere"},
    **{NoisyAnswers: "two passes of one model", Refuses: "RuntimeError: a multiple of 64"},
}


@pytest.mark.parametrize("cls", [*UNSOUND, UnseededWeights, DeadParameter, Forgets, Anneals, Drops])
def test_a_class_by_which_numbers_would_be_false_is_refused_in_the_model_of_its_trial(cls):
    field = next(field for base, field in FIELDS.items() if issubclass(cls, base))
    own = {field: f"{HERE}:{cls.__name__}", "model.num_layers": 3, "model.d_model": 96}
    config, state = override(TrialConfig(), own), torch.get_rng_state()
    if cls in UNSOUND:
        with pytest.raises(ValueError, match=f"{HERE}:{cls.__name__}': .*{UNSOUND[cls]}"):
            require_sound(config)
    else:
        require_sound(config)
    assert torch.equal(state, torch.get_rng_state())


def test_what_cannot_be_checked_here_is_said(capsys):
    config = override(TrialConfig(), {"position.encoding": f"{HERE}:Crashes"})
    with pytest.raises(ValueError, match=f"^encoding '{HERE}:Crashes': TypeError: no such thing"):
        require_sound(config)
    require_sound(config, "cuda")
    assert f"not checked on the CPU: encoding '{HERE}:Crashes': " in capsys.readouterr().err


def test_an_attention_that_changes_in_training_alone_conforms():
    assert not failures(check("attention", f"{HERE}:Anneals"))
