"""`python -m sweeps cost`: how accurately the cost model predicts the trials of a store.

Each cell is predicted from cells with a different training step, each sweep from cells of other
sweeps, the longest steps from shorter ones, and the shortest from longer ones.
"""

from collections.abc import Mapping, Sequence

from pcore.config import flatten
from sweeps.engine.options import count_threads, open_store
from sweeps.engine.plan import align
from sweeps.engine.prices.cost_model import (
    MIN_STEPS,
    Measurement,
    cross_validate,
    fit,
    is_enough,
    leave_out,
)
from sweeps.engine.prices.measured import MeasuredCell, read_measured
from sweeps.engine.prices.price import describe_ratios
from sweeps.engine.store.store import Store

SHOWN = {  # columns of the table; what all cells have in common is left out
    "task": "task.name",
    "encoding": "position.encoding",
    "ids": "position.ids",
    "layers": "model.num_layers",
    "heads": "model.num_heads",
    "d_model": "model.d_model",
    "d_ff": "model.d_ff",
    "length": "data.max_length",
    "batch": "optim.batch_size",
    "steps": "optim.num_steps",
}


def show_cost(results: str | None, device: str, cpus_per_trial: float) -> int:
    """Print the table. Raises ValueError if the store holds too few trials for a fit."""
    store = open_store(results)
    cells = read_measured(store, device, count_threads(cpus_per_trial)).sample
    measured = [cell.measurement for cell in cells]
    steps = {m.amounts.step for m in measured}
    if not is_enough(measured):
        raise ValueError(
            f"{store.root} holds trials with {len(steps)} different training steps, measured on "
            f"this kind of device; a cost model needs {MIN_STEPS}"
        )
    ratios = cross_validate(measured)
    print(align(_rows(cells, ratios)), end="\n\n")
    print(f"each of {len(steps)} training steps from the others: {describe_ratios(ratios)}")
    for name, chosen in _groups(store, cells).items():
        ratios = leave_out(measured, chosen.__contains__)
        print(f"{name}: {describe_ratios(ratios) if ratios else 'too few others'}")
    model = fit(measured)
    print(f"\n{1000 * model.per_step:.2g} ms a step and {model.per_operation:.2g} s an operation")
    return 0


def _rows(cells: Sequence[MeasuredCell], ratios: Sequence[float]) -> list[tuple[str, ...]]:
    """A line per cell, that of the longest step first."""
    flat = [flatten(cell.config) for cell in cells]
    columns = [
        (title, [str(values[name]) for values in flat])
        for title, name in SHOWN.items()
        if len({values[name] for values in flat}) > 1
    ]
    took = [cell.measurement.seconds for cell in cells]
    columns += [
        ("trials", [str(cell.num_trials) for cell in cells]),
        ("measured s", [f"{seconds:.1f}" for seconds in took]),
        ("predicted s", [f"{seconds / r:.1f}" for seconds, r in zip(took, ratios, strict=True)]),
        ("ratio", [f"{ratio:.2f}" for ratio in ratios]),
    ]
    order = sorted(range(len(cells)), key=lambda i: -_step(cells[i].measurement))
    titles = tuple(title for title, _ in columns)
    return [titles, *(tuple(values[i] for _, values in columns) for i in order)]


def _groups(store: Store, cells: Sequence[MeasuredCell]) -> Mapping[str, list[Measurement]]:
    """What is predicted from all the rest, by name: a quarter of the steps, or a sweep."""
    steps = sorted(_step(cell.measurement) for cell in cells)
    quarter = max(1, len(steps) // 4)
    measured = [cell.measurement for cell in cells]
    groups = {
        "longest quarter of steps": [m for m in measured if _step(m) >= steps[-quarter]],
        "shortest quarter of steps": [m for m in measured if _step(m) <= steps[quarter - 1]],
    }
    ids = store.load(record="trial", columns=["trial_id", "cell_id"]).to_pylist()
    cell_of = {row["trial_id"]: row["cell_id"] for row in ids}
    for (name, scale), view in store.views().items():
        trials = view.column("trial_id").to_pylist()
        members = {cell_of.get(trial) for trial in trials}
        if chosen := [cell.measurement for cell in cells if cell.cell in members]:
            groups[f"{name} [{scale}] from the others"] = chosen
    return groups


def _step(m: Measurement) -> float:
    return m.amounts.train_operations / m.amounts.num_steps
