"""How well the cost model predicts the trials of a store: `python -m sweeps cost`.

Every shape is predicted from those with another training step; every sweep from the shapes that it
lacks; the longest steps from the shorter ones, and the other way round.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pcore.config import flatten
from sweeps.engine.options import count_threads, open_store
from sweeps.engine.plan import align
from sweeps.engine.prices.cost_model import (
    MIN_STEPS,
    PARTS,
    CostModel,
    Measurement,
    Shape,
    cross_validate,
    fit,
    is_enough,
)
from sweeps.engine.prices.measured import MeasuredCell, by_shape, measurements, read_measured
from sweeps.engine.prices.price import describe_ratios
from sweeps.engine.prices.work import AMOUNTS
from sweeps.engine.store.store import Store

SHOWN = {  # columns of the table; what all shapes have in common is left out
    "task": "task.name",
    "encoding": "position.encoding",
    "ids": "position.ids",
    "layers": "model.num_layers",
    "heads": "model.num_heads",
    "d_model": "model.d_model",
    "d_ff": "model.d_ff",
    "length": "data.max_length",
    "batch": "optim.batch_size",
    "max_position": "position.max_position",
    "steps": "optim.num_steps",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Known:
    """The shapes of a store, their cells and what they took, all in one order."""

    shapes: list[Shape]
    cells: list[list[MeasuredCell]]
    measured: list[Measurement]


def show_cost(results: str | None, device: str, cpus_per_trial: float) -> int:
    """Print the table. Raises ValueError if the store holds too few shapes for a fit."""
    store = open_store(results)
    sample = read_measured(store, device, count_threads(cpus_per_trial)).sample
    shapes = by_shape(sample, device)
    known = _Known(shapes=list(shapes), cells=list(shapes.values()), measured=measurements(shapes))
    steps = {shape.step for shape in known.shapes}
    if len(steps) < MIN_STEPS:
        raise ValueError(
            f"{store.root} holds trials with {len(steps)} different training steps, measured on "
            f"this kind of device; a cost model needs {MIN_STEPS}"
        )
    pairs = cross_validate(known.measured)
    print(align(_rows(known, pairs)), end="\n\n")
    ratios = [took / predicted for predicted, took in pairs]
    print(f"each of {len(steps)} training steps from the others: {describe_ratios(ratios)}")
    print(_extrapolations(known))
    for name, shapes_of_sweep in _sweeps(store, known).items():
        print(_left_out(known, f"{name} from the others", shapes_of_sweep.__contains__))
    print("\n" + align(_unit_rows(fit(known.measured), known.measured)))
    return 0


def _rows(known: _Known, pairs: Sequence[tuple[float, float]]) -> list[tuple[str, ...]]:
    """A line per shape, that of the longest step first."""
    flat = [flatten(cells[0].config) for cells in known.cells]
    columns = [
        (title, [str(values[name]) for values in flat])
        for title, name in SHOWN.items()
        if len({values[name] for values in flat}) > 1
    ]
    trials = [str(sum(cell.num_trials for cell in cells)) for cells in known.cells]
    columns += [
        ("trials", trials),
        ("ms a step", [f"{1000 * _step(m):.1f}" for m in known.measured]),
        ("measured s", [f"{took:.1f}" for _, took in pairs]),
        ("predicted s", [f"{predicted:.1f}" for predicted, _ in pairs]),
        ("ratio", [f"{took / predicted:.2f}" for predicted, took in pairs]),
    ]
    order = sorted(range(len(pairs)), key=lambda i: -_step(known.measured[i]))
    titles = tuple(title for title, _ in columns)
    return [titles, *(tuple(values[i] for _, values in columns) for i in order)]


def _extrapolations(known: _Known) -> str:
    """Predictions outside of the range that was fitted to."""
    steps = sorted(_step(m) for m in known.measured)
    quarter = max(1, len(steps) // 4)
    short, long = steps[quarter - 1], steps[-quarter]
    duration = {m.shape: _step(m) for m in known.measured}
    return "\n".join(
        [
            _left_out(known, "longest quarter of steps", lambda s: duration[s] >= long),
            _left_out(known, "shortest quarter of steps", lambda s: duration[s] <= short),
        ]
    )


def _left_out(known: _Known, what: str, chosen: Callable[[Shape], bool]) -> str:
    """One line: the chosen shapes, predicted from all the others."""
    steps = {m.shape.step for m in known.measured if chosen(m.shape)}
    kept = [m for m in known.measured if m.shape.step not in steps]
    if not is_enough(kept):
        return f"{what}: too few others"
    model = fit(kept)
    ratios = [m.seconds / model.seconds(m.shape) for m in known.measured if chosen(m.shape)]
    return f"{what}: {describe_ratios(ratios)}"


def _sweeps(store: Store, known: _Known) -> Mapping[str, set[Shape]]:
    """The shapes of each sweep that has a view in the store."""
    shape_of_cell = {
        cell.cell: shape
        for shape, cells in zip(known.shapes, known.cells, strict=True)
        for cell in cells
    }
    ids = store.load(record="trial", columns=["trial_id", "cell_id"]).to_pylist()
    cell_of = {row["trial_id"]: row["cell_id"] for row in ids}
    sweeps: dict[str, set[Shape]] = {}
    for name, scale in store.view_names():
        trials = store.load_view(name, scale).column("trial_id").to_pylist()
        cells = {cell_of.get(trial) for trial in trials}
        if found := {shape_of_cell[cell] for cell in cells if cell in shape_of_cell}:
            sweeps[f"{name} [{scale}]"] = found
    return sweeps


def _unit_rows(model: CostModel, measured: Sequence[Measurement]) -> list[tuple[str, ...]]:
    """Seconds per unit of each amount, and its share of the mean trial."""
    rows: list[tuple[str, ...]] = [
        ("amount", *(text for part in PARTS for text in (f"{part}: s per unit", "share")))
    ]
    totals = {part: sum(model.predict(m.shape, part) for m in measured) for part in PARTS}
    for i, name in enumerate(AMOUNTS):
        row = [name]
        for part in PARTS:
            each = getattr(model, part)[i]
            mine = sum(each * getattr(m.shape, part)[i] for m in measured)
            row += [f"{each:.2g}", f"{100 * mine / totals[part]:.0f} %"]
        rows.append(tuple(row))
    return rows


def _step(m: Measurement) -> float:
    return m.training / m.shape.training[AMOUNTS.index("calls")]
