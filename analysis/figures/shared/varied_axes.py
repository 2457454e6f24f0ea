"""Finds the number that a sweep varies, from the configurations of its cells."""

import math
from dataclasses import dataclass
from typing import Any

from analysis.configs import MEASURED, cell_configs, differences
from analysis.load import Results

LOG_SPAN = 8  # largest over smallest value from which on an axis is logarithmic
# Names for readers; the first here is the axis if several numbers change together.
LABELS = {
    "model.num_layers": "layers",
    "model.num_heads": "heads",
    "model.d_model": "width (d_model)",
    "data.max_length": "longest trained length",
    "position.max_position": "max_position",
    "data.num_examples": "training examples",
    "optim.learning_rate": "learning rate",
    "optim.num_steps": "steps",
    "optim.batch_size": "batch size",
}
ENDLESS = math.inf  # stands for None (fresh examples for ever): after all numbers


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """A number that differs between the cells."""

    name: str  # of the field
    values: dict[str, float]  # by cell, in the order of the sweep
    tied: tuple[str, ...] = ()  # fields that change along with it

    @property
    def label(self) -> str:
        """The label of the axis."""
        return LABELS.get(self.name, self.name.rpartition(".")[2])

    @property
    def is_log(self) -> bool:
        """Whether the values span so much that a linear axis would hide the small ones."""
        finite = [value for value in self.values.values() if value != ENDLESS]
        return min(finite) > 0 and max(finite) >= LOG_SPAN * min(finite)

    @property
    def ticks(self) -> dict[float, str]:
        """The label of every value, in order."""
        return {value: number(value) for value in sorted(set(self.values.values()))}

    def position(self, value: float) -> float:
        """Where a value is drawn: an endless one a step after the largest number."""
        if value != ENDLESS:
            return value
        finite = sorted({v for v in self.values.values() if v != ENDLESS})
        last, before = finite[-1], finite[-2] if len(finite) > 1 else finite[-1] / 2
        return last * last / before if self.is_log else 2 * last - before


def find_axis(results: Results) -> Axis | None:
    """The number that tells all cells apart, if they differ in nothing but numbers; others that
    change along with it are named in `tied`.
    """
    configs = cell_configs(results)
    varied = {k: v for k, v in differences(configs).items() if k not in MEASURED}
    if not all(_is_numeric(values) for values in varied.values()):
        return None
    cells = list(configs)
    ranked = sorted(varied, key=lambda k: list(LABELS).index(k) if k in LABELS else len(LABELS))
    name = next((name for name in ranked if len(set(varied[name])) == len(cells)), None)
    if name is None:
        return None
    values = [ENDLESS if value is None else value for value in varied[name]]
    tied = [other for other in ranked if other != name and _follows(varied, other, name)]
    return Axis(name=name, values=dict(zip(cells, values, strict=True)), tied=tuple(tied))


def _is_numeric(values: list[Any]) -> bool:
    numbers = [v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)]
    return len(numbers) > 0 and all(v is None or v in numbers for v in values)


def _follows(varied: dict[str, list[Any]], other: str, name: str) -> bool:
    """Whether one field is a function of another."""
    pairs = set(zip(varied[name], varied[other], strict=True))
    return len(pairs) == len(set(varied[name]))


def number(value: float) -> str:
    """A value as short as it is exact: 1003, 50k, 1M, 3e-5."""
    if value == ENDLESS:
        return "endless"
    for unit, name in ((1_000_000, "M"), (1000, "k")):
        if value >= unit and value % unit == 0:
            return f"{value / unit:g}{name}"
    return f"{value:g}".replace("e-0", "e-").replace("e+0", "e")
