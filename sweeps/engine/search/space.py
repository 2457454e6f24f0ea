"""The definition of a hyper-parameter search and its budget, without Optuna.

A search tunes the same fields with the same budget in every arm, each arm for itself. A
configuration climbs rungs: full trainings of growing length, each with a complete learning-rate
schedule, so that every rung is an ordinary trial and its rows are those of any other.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pcore.config import Scalar, TrialConfig, coerce, flatten, known_fields, override
from pcore.registry import nearest
from sweeps.engine.plan import align
from sweeps.engine.spec import Scale, own_errors, script_of

SEED = 1000  # of every search trial: sweeps count from 0, so what they report was not tuned on
HALVING = 3  # about a third of a rung, the best, is promoted


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from low to high, in the unit of the field; evenly spread over logarithms if log."""

    low: float
    high: float
    log: bool = True


@dataclass(frozen=True, slots=True)
class Choice:
    """One of these values."""

    values: tuple[Scalar, ...]


Space = Mapping[str, Range | Choice]


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """What every arm may spend: how many configurations, and the rungs they climb, as fractions of
    optim.num_steps.
    """

    configurations: int
    rungs: tuple[float, ...] = (1 / 9, 1 / 3, 1.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """A search of hyper-parameters. Name and claim are those of the script that lists the arms,
    unless given.
    """

    name: str = ""
    title: str
    claim: str = ""
    arms: Callable[[Scale], Mapping[str, TrialConfig]]  # base configurations by label
    space: Space  # what is tuned, by dotted field
    budget: Mapping[Scale, Budget]  # of each arm

    def __post_init__(self) -> None:
        script, claim = script_of(self.arms)
        object.__setattr__(self, "name", self.name or script.stem)
        object.__setattr__(self, "claim", self.claim or claim)

    def budget_at(self, scale: Scale) -> Budget:
        """Raises ValueError with the scales that have one."""
        if scale not in self.budget:
            there = " or ".join(f"--scale {name}" for name in self.budget) or "none"
            raise ValueError(f"{self.name} has no budget at scale {scale}; there: {there}")
        return self.budget[scale]


def prepare_arms(search: Search, scale: Scale, budget: Budget) -> dict[str, TrialConfig]:
    """The arms as they are searched: without test range, at the seeds of the search.

    Raises ValueError for a budget, a space or an arm that cannot work.
    """
    if budget.configurations < 1:
        raise ValueError(f"{budget.configurations} configurations per arm is below 1")
    _check_rungs(budget.rungs)
    arms: dict[str, TrialConfig] = {}
    for label, config in _arms(search, scale).items():
        blind = {"eval.test_lengths": (), "eval.checkpoints": ("last",)}
        arms[label] = replace(override(config, blind), seed=SEED, data_seed=SEED)
        try:
            _check_near(arms[label])
            _check_space(arms[label], search.space)
            steps = rung_steps(arms[label], budget.rungs)
            if len(set(steps)) < len(steps):
                raise ValueError(f"optim.num_steps={steps[-1]} is too short for rungs {steps}")
        except ValueError as error:
            raise ValueError(f"arm {label!r}: {error}") from error
    if not arms:
        raise ValueError("there are no arms")
    return arms


def _arms(search: Search, scale: Scale) -> Mapping[str, TrialConfig]:
    with own_errors(f"{search.name} at scale {scale}", ValueError):
        found: object = search.arms(scale)
    if not isinstance(found, Mapping):
        raise ValueError(f"{search.name}: arms gives {found!r}, not a TrialConfig for each label")
    for label, config in found.items():
        if not isinstance(config, TrialConfig):
            raise ValueError(f"{search.name}: arm {label!r} is no TrialConfig but {config!r}")
    return found


def _check_rungs(rungs: Sequence[float]) -> None:
    rising = all(a < b for a, b in itertools.pairwise(rungs))
    if not rungs or rungs[0] <= 0 or not rising or rungs[-1] != 1:
        text = ", ".join(f"{rung:g}" for rung in rungs)
        raise ValueError(f"rungs ({text}) must rise from above 0 to exactly 1")


def _check_near(config: TrialConfig) -> None:
    """Something must be evaluated as near range; second lengths can make it test range."""
    task, data = config.task, config.data
    trained = task.trained_seconds(data.min_length, data.max_length)
    near, asked = config.eval.near_lengths, config.eval.second_lengths
    seconds = {second for n in near for second in asked or (task.default_second(n),)}
    if not near:
        raise ValueError("eval.near_lengths is empty: there is nothing to score on")
    if trained is not None and not seconds & {None, *trained}:
        raise ValueError("eval.near_lengths all belong to the test range by their second length")


def _check_space(config: TrialConfig, space: Space) -> None:
    from pcore.validation import validate  # imports torch, and `--help` checks nothing

    if not space:
        raise ValueError("the space is empty")
    fields = known_fields(type(config.task))
    for field, values in space.items():
        if field not in fields:
            raise ValueError(f"unknown field {field!r}.{nearest(field, fields)}")
        if field == "optim.num_steps":
            raise ValueError("optim.num_steps belongs to the rungs, not to the space")
        if field in ("seed", "data_seed", "task.name") or field.startswith("eval."):
            raise ValueError(f"{field} decides what is measured and cannot be searched")
        ends = values.values if isinstance(values, Choice) else _check_range(config, field, values)
        read = list[object]()
        for end in ends:
            if not isinstance(end, (str, bool, int, float, type(None))):
                raise ValueError(f"{field}: a choice has the value {end!r}; write it as a text")
            changed = override(config, {field: end})
            validate(changed)
            read.append(flatten(changed)[field])
        if len(set(read)) < max(2, len(read)):
            raise ValueError(f"{field}: a choice needs different values, at least two")


def _check_range(config: TrialConfig, field: str, values: Range) -> tuple[float, float]:
    low, high = find_bounds(config, field, values)
    if not low < high:
        raise ValueError(f"{field}: low={low:g} is not below high={high:g}")
    if values.log and low <= 0:
        raise ValueError(f"{field}: a logarithmic range cannot begin at {low:g}")
    return low, high


def find_bounds(config: TrialConfig, field: str, values: Range) -> tuple[float, float]:
    """Both ends of a range in the type of the field, int or float. Raises ValueError if the field
    is not a number.
    """
    annotation = known_fields(type(config.task))[field]
    low, high = (coerce(end, annotation, field) for end in (values.low, values.high))
    if isinstance(low, bool) or not isinstance(low, (int, float)):
        raise ValueError(f"{field} is not a number: use a Choice")
    return low, high


def defaults_in_space(config: TrialConfig, space: Space) -> dict[str, Scalar] | None:
    """The searched fields as the arm has them, or None if the search could not draw them. A choice
    is as the space writes it.
    """
    flat, own = flatten(config), dict[str, Scalar]()
    for field, values in space.items():
        value = flat[field]
        if isinstance(values, Choice):
            same = [v for v in values.values if flatten(override(config, {field: v})) == flat]
        else:
            inside = isinstance(value, (int, float)) and values.low <= value <= values.high
            same = [value] if inside else []
        if not same:
            return None
        own[field] = same[0]
    return own


def rung_steps(config: TrialConfig, rungs: Sequence[float]) -> list[int]:
    """Training steps of each rung."""
    return [max(1, round(rung * config.optim.num_steps)) for rung in rungs]


def format_budget(
    search: Search, scale: Scale, budget: Budget, arms: Mapping[str, TrialConfig]
) -> str:
    """The budget as a printed table, before anything runs."""
    rows = [("arm", "configurations", "steps of the rungs", "steps at most", "steps if halved")]
    most, halved = 0, 0.0
    for label, config in arms.items():
        steps, number = rung_steps(config, budget.rungs), budget.configurations
        arm_most = number * sum(steps)
        arm_halved = sum(number * s / HALVING**rung for rung, s in enumerate(steps))
        texts = (", ".join(map(str, steps)), f"{arm_most:,}", f"{arm_halved:,.0f}")
        rows.append((label, str(number), *texts))
        most, halved = most + arm_most, halved + arm_halved
    lines = [
        f"{search.name} [{scale}]: {search.title}",
        f"tuned in every arm: {', '.join(search.space)}",
        "",
        align(rows),
        "",
        f"{len(arms)} arms x {budget.configurations} configurations x {len(budget.rungs)} "
        f"rungs: at most {most:,} steps; about {halved:,.0f} if a third of each rung goes on",
    ]
    if outside := [k for k, arm in arms.items() if defaults_in_space(arm, search.space) is None]:
        lines.append(f"outside the space, and so not tried: the values of {'; '.join(outside)}")
    return "\n".join(lines)
