"""Which trials of a sweep have to run: those that the store does not hold, with their predicted
price.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pcore.config import trial_id, without_seeds
from sweeps.engine.attempt import MAX_LOST
from sweeps.engine.price import Price, count_flops, price_cells
from sweeps.engine.spec import Scale, Sweep, Trial
from sweeps.engine.store import Store

State = Literal["done", "diverged", "missing", "retry", "given up"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedTrial:
    """A trial of the sweep and what the store says of it. price: None for trials that need not run.

    done = an ok row set exists; diverged = final, counts as a failure; missing = never tried; retry
    = the last attempt ended in lost, oom, timeout or error; given up = its worker died too often.
    """

    trial: Trial
    state: State
    price: Price | None

    @property
    def to_run(self) -> bool:
        return self.state in ("missing", "retry")


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """All trials of a sweep at a scale, in the order of its cells."""

    sweep: Sweep
    scale: Scale
    trials: tuple[PlannedTrial, ...]

    @property
    def to_run(self) -> list[PlannedTrial]:
        """Trials to start, the longest first, so that no slot is left with a long one at the
        end.
        """
        pending = [planned for planned in self.trials if planned.to_run]
        return sorted(pending, key=lambda planned: -(planned.price.seconds if planned.price else 0))

    @property
    def seconds(self) -> float:
        """Predicted slot-seconds of everything that has to run."""
        return sum(planned.price.seconds for planned in self.to_run if planned.price)


def make_plan(
    sweep: Sweep,
    scale: Scale,
    seeds: str | None,
    store: Store,
    device: str = "cpu",
    priced: bool = True,
) -> Plan:
    """Expand, check and compare with the store. `priced=False` skips the prices (and the probe
    behind them).
    """
    trials = sweep.trials(scale, seeds)
    visible = store.visible()
    states: dict[str, State] = {}
    for trial in trials:
        shard = visible.get(trial.id)
        if shard is None:
            states[trial.id] = "missing"
        elif shard.status in ("ok", "diverged"):
            states[trial.id] = "done" if shard.status == "ok" else "diverged"
        elif shard.status == "lost" and len(store.shards_of(trial.id)) >= MAX_LOST:
            states[trial.id] = "given up"
        else:
            states[trial.id] = "retry"
    pending = {t.id: t.cell.config for t in trials if states[t.id] in ("missing", "retry")}
    prices = price_cells(pending.values(), store, device) if priced else {}
    planned = [
        PlannedTrial(
            trial=trial,
            state=states[trial.id],
            price=prices.get(trial_id(without_seeds(trial.config)))
            if trial.id in pending
            else None,
        )
        for trial in trials
    ]
    return Plan(sweep=sweep, scale=scale, trials=tuple(planned))


def format_plan(plan: Plan, num_slots: int) -> str:
    """The plan as a table for people: one line per cell, then the totals."""
    lines = [f"{plan.sweep.name} [{plan.scale}]: {plan.sweep.title}", ""]
    rows = [("cell", "trials", "done", "to run", "s each", "GFLOP each", "from")]
    for label, members in _by_cell(plan.trials).items():
        run = [p for p in members if p.to_run]
        price = run[0].price if run else None
        rows.append(
            (
                label,
                str(len(members)),
                str(sum(p.state in ("done", "diverged") for p in members)),
                str(len(run)),
                f"{price.seconds:.0f}" if price else "-",
                f"{count_flops(members[0].trial.config) / 1e9:,.0f}",
                price.source if price else "-",
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        numbers = [text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  " + "  ".join([row[0].ljust(widths[0]), *numbers]).rstrip())
    pending, num_trials = plan.to_run, len(plan.trials)
    lines += [
        "",
        f"{num_trials} trials, {num_trials - len(pending)} finished, {len(pending)} to run",
        f"predicted: {format_seconds(plan.seconds)} of one slot, "
        f"about {format_seconds(predict_wall(pending, num_slots))} on {num_slots} slots",
    ]
    return "\n".join(lines)


def predict_wall(pending: Sequence[PlannedTrial], num_slots: int) -> float:
    """Seconds until the last of the trials ends, when each goes to the first free slot in this
    order.
    """
    slots = [0.0] * max(1, num_slots)
    for planned in pending:
        first = slots.index(min(slots))
        slots[first] += planned.price.seconds if planned.price else 0.0
    return max(slots)


def _by_cell(trials: Sequence[PlannedTrial]) -> dict[str, list[PlannedTrial]]:
    cells: dict[str, list[PlannedTrial]] = {}
    for planned in trials:
        cells.setdefault(planned.trial.cell.label, []).append(planned)
    return cells


def format_seconds(seconds: float) -> str:
    """ "45 s", "3 min 20 s", "2 h 05 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
