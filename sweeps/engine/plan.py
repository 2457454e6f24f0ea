"""Plans a sweep: the trials that the store does not hold, with their predicted price."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pcore.cli import text
from pcore.cli.text import format_seconds, plural
from sweeps.engine.spec import Scale, Sweep, Trial
from sweeps.engine.store.sources import is_same_code
from sweeps.engine.store.store import Shard, Store
from sweeps.engine.trial.failures import SAME_ERROR, last_line

if TYPE_CHECKING:  # it imports torch, which `status` does not need
    from pcore.config import TrialConfig
    from sweeps.engine.price import Price

MAX_ROWS = 200  # of a printed plan
State = Literal["done", "diverged", "missing", "retry", "failed", "stopped"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedTrial:
    """A trial of the sweep and what the store says of it. price: None for trials that need not run.

    done = an ok row set exists; diverged = final, counts as a failure; missing = never finished;
    retry = the last attempt was lost, ran out of memory, was ended, or failed in other code than
    today's; failed = it raised an error in this very code; stopped = never finished, and two trials
    of its cell failed with the same error.
    """

    trial: Trial
    state: State
    price: "Price | None"

    @property
    def to_run(self) -> bool:
        return self.state in ("missing", "retry")

    @property
    def finished(self) -> bool:
        return self.state in ("done", "diverged")


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """All trials of a sweep at a scale, in the order of its cells."""

    sweep: Sweep
    scale: Scale
    trials: tuple[PlannedTrial, ...]

    @property
    def title(self) -> str:
        """The sweep in one line."""
        return f"{self.sweep.name} [{self.scale}]: {self.sweep.title}"

    @property
    def to_run(self) -> list[PlannedTrial]:
        """Trials to run, in listed order."""
        return [planned for planned in self.trials if planned.to_run]

    @property
    def seconds(self) -> float:
        """Predicted slot-seconds of everything that has to run."""
        return sum(planned.price.seconds for planned in self.to_run if planned.price)


def make_plan(
    sweep: Sweep,
    scale: Scale,
    seeds: str | None,
    store: Store,
    retry_errors: bool = False,
    find_prices: "Callable[[Mapping[str, TrialConfig]], Mapping[str, Price]]" = lambda cells: {},
) -> Plan:
    """Expand, check and compare with the store.

    retry_errors: run failed trials again. find_prices: of the cells to run, by id, for which rows
    are read; without it trials have no price.
    """
    trials = sweep.trials(scale, seeds)
    states = trial_states({t.id: t.cell.id for t in trials}, store, retry_errors)
    pending = {t.cell.id: t.cell.config for t in trials if states[t.id] in ("missing", "retry")}
    prices = find_prices(pending)
    planned = [
        PlannedTrial(
            trial=trial,
            state=states[trial.id],
            price=prices.get(trial.cell.id) if states[trial.id] in ("missing", "retry") else None,
        )
        for trial in trials
    ]
    return Plan(sweep=sweep, scale=scale, trials=tuple(planned))


def trial_states(
    cells: Mapping[str, str], store: Store, retry_errors: bool = False
) -> dict[str, State]:
    """The state of each trial in the store, by id. cells: the cell of each, by its id or label."""
    visible = {shard.trial_id: shard for shard in store.visible_of(cells)}
    errors = {} if retry_errors else _errors_of_this_code(cells, visible, store)
    twice = Counter((cells[name], text) for name, text in errors.items())
    stopped_cells = {cell for (cell, _), count in twice.items() if count >= SAME_ERROR}
    states: dict[str, State] = {}
    for name, cell in cells.items():
        shard = visible.get(name)
        if shard is not None and shard.finished:
            states[name] = "done" if shard.status == "ok" else "diverged"
        elif name in errors:
            states[name] = "failed"
        elif cell in stopped_cells:
            states[name] = "stopped"
        else:
            states[name] = "missing" if shard is None else "retry"
    return states


def _errors_of_this_code(
    trials: Iterable[str], visible: Mapping[str, Shard], store: Store
) -> dict[str, str]:
    """What trials raised that ended in an error, and would again: the code is the same."""
    shards = [visible[name] for name in trials if name in visible]
    failed = [shard for shard in shards if shard.status == "error"]
    if not failed:
        return {}
    columns = ["trial_id", "error", "code_hash"]
    return {
        row["trial_id"]: last_line(row["error"] or "")
        for row in store.load_shards(failed, "trial", columns).to_pylist()
        if is_same_code(row["code_hash"])
    }


def launch_order(plans: Iterable[Plan], num_slots: int) -> list[PlannedTrial]:
    """What has to run, each trial once. On several slots the shortest first, for an early result,
    then from the longest on, so that none is left with a long one at the end; on one slot in the
    order of the plans.
    """
    pending = list({p.trial.id: p for plan in plans for p in plan.to_run}.values())
    if num_slots < 2:
        return pending
    pending.sort(key=lambda p: -(p.price.seconds if p.price else 0))
    return pending[-1:] + pending[:-1]


def format_plan(plan: Plan, num_slots: int, start: float = 0.0) -> str:
    """The plan as a printed table: one line per cell, then the totals. start: seconds until the
    first trial starts.
    """
    from pcore.flops import count_flops

    lines = [plan.title, ""]
    rows = [("cell", "trials", "done", "to run", "s each", "GFLOP each", "from")]
    cells = _by_cell(plan.trials)
    for label, members in itertools.islice(cells.items(), MAX_ROWS):
        run = [p for p in members if p.to_run]
        price = run[0].price if run else None
        rows.append(
            (
                label,
                str(len(members)),
                str(sum(p.finished for p in members)),
                str(len(run)),
                f"{price.seconds:.0f}" if price else "-",
                f"{count_flops(members[0].trial.config) / 1e9:,.0f}",
                price.source if price else "-",
            )
        )
    lines.append(align(rows))
    if len(cells) > MAX_ROWS:
        lines.append(f"  ... and {len(cells) - MAX_ROWS:,} more cells")
    wall = predict_wall(launch_order([plan], num_slots), num_slots, start)
    lines += [
        "",
        count_states(plan),
        f"predicted: {format_seconds(plan.seconds)} of one slot, "
        f"about {format_seconds(wall)} on {plural(num_slots, 'slot')}",
    ]
    return "\n".join(lines)


def count_states(plan: Plan) -> str:
    """ "12 trials, 8 finished, 4 to run", and how many are not run again because they failed."""
    finished = sum(p.finished for p in plan.trials)
    left = [p.state for p in plan.trials if p.state in ("failed", "stopped")]
    text = f"{plural(len(plan.trials), 'trial')}, {finished} finished, {len(plan.to_run)} to run"
    if left:
        text += f", {len(left)} not run again after an error (--retry-errors does)"
    return text


def predict_wall(pending: Sequence[PlannedTrial], num_slots: int, start: float = 0.0) -> float:
    """Seconds until the last of the trials ends, when each goes to the first free slot in this
    order. start: seconds until the slots are there, if there is anything to run.
    """
    slots = [start if pending else 0.0] * max(1, num_slots)
    for planned in pending:
        first = slots.index(min(slots))
        slots[first] += planned.price.seconds if planned.price else 0.0
    return max(slots)


def align(rows: Sequence[tuple[str, ...]], num_text: int = 1) -> str:
    """An indented table; the first `num_text` columns are text, the others numbers."""
    return "\n".join(text.align(rows, "<" * num_text + ">", indent="  "))


def _by_cell(trials: Sequence[PlannedTrial]) -> dict[str, list[PlannedTrial]]:
    cells: dict[str, list[PlannedTrial]] = {}
    for planned in trials:
        cells.setdefault(planned.trial.cell.label, []).append(planned)
    return cells
