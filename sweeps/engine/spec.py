"""The definition of a sweep: a named list of cells (configurations without seeds) and replicates.

A sweep is a view of trials: a trial is identified by the hash of its configuration alone, so two
sweeps with the same configuration share its rows. There are three ways to combine axes into cells:

    layers, heads = axis("model.num_layers", 1, 2), axis("model.num_heads", 2, 4)
    grid(base, layers=layers, heads=heads)                   # every combination: 4 cells
    zipped(base, layers=layers, heads=heads)                 # (1, 2), (2, 4): 2 cells
    one_at_a_time(base, "base", layers=layers, heads=heads)  # base, then each point alone
"""

import itertools
import math
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from pcore.config import (
    TrialConfig,
    flatten,
    override,
    own_code,
    trial_id,
    trial_ids,
    without_seeds,
)
from pcore.registry import describe_error

Scale = Literal["smoke", "laptop", "paper"]
SCALES: tuple[Scale, ...] = get_args(Scale)
SCRIPTS = Path(__file__).resolve().parents[1]  # the folder of pcore's sweeps and searches
Coordinate: TypeAlias = int | float | str
MAX_REPLICATES = 10_000  # of a cell
MAX_SEED = 2**62
# Replicates of most sweeps: at laptop scale two model x two data seeds on which nothing was chosen.
REPLICATES: Mapping[Scale, str] = {"smoke": "2", "laptop": "2x2@700", "paper": "4x2"}
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.,=+:~ -]{0,199}")  # of files, too


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One value of an axis: a label for tables and the fields it changes."""

    label: str
    changes: Mapping[str, Any]
    value: Any = None  # the number or word of an axis over one field; None: the label stands for it

    @property
    def coordinate(self) -> Coordinate:
        """Where the point is on its axis."""
        return self.value if isinstance(self.value, (int, float, str)) else self.label


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """A trial configuration without its seeds, its id, and the label it has in this sweep.

    Values that a script gave a configuration itself are coerced like all others. Raises ValueError
    for those that are of another type than their field.
    """

    label: str
    config: TrialConfig
    # Where it is on each axis, by the axis' name: for tables and figures, no part of the identity.
    axes: Mapping[str, Coordinate] = field(default_factory=dict[str, Coordinate], compare=False)
    id: str = field(init=False)

    def __post_init__(self) -> None:
        name = ""
        if isinstance(self.config, TrialConfig):  # else `check_cells` says so
            try:
                flat = flatten(self.config)
                for own in itertools.chain(*own_code(flat).values()):
                    if own.startswith("__main__:"):
                        raise ValueError(f"{own} is defined in a script: import it from a module")
                config = override(self.config, flat)
            except ValueError as error:
                raise ValueError(f"cell {self.label!r}: {error}") from error
            object.__setattr__(self, "config", config)
            name = trial_id(without_seeds(config))
        object.__setattr__(self, "id", name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """A cell at one pair of seeds."""

    cell: Cell
    config: TrialConfig
    id: str

    @property
    def name(self) -> str:
        """ "coupling, 1 layer, seed 0", with both seeds where they differ."""
        return f"{self.cell.label}, {seeds_text(self.config.seed, self.config.data_seed)}"


def seeds_text(seed: int, data_seed: int) -> str:
    """ "seed 0", or both seeds where they differ."""
    return f"seed {seed}" if seed == data_seed else f"seed {seed}, data seed {data_seed}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep:
    """An ablation. Name and claim are those of the script that lists the cells, unless given."""

    name: str = ""
    title: str  # of tables and figures
    claim: str = ""  # question, figure of the paper, expectation and cost, in words
    cells: Callable[[Scale], Sequence[Cell]]
    seeds: Mapping[Scale, str] = field(default_factory=lambda: REPLICATES)  # see `parse_seeds`
    command: str = ""  # of a changed sweep: what runs it, without a scale
    is_search: bool = False  # a round of a search: its view lies apart, and no table is drawn
    script: str = field(init=False)  # name of the file that lists the cells; empty if unknown

    def __post_init__(self) -> None:
        script, claim = script_of(self.cells)
        object.__setattr__(self, "script", script.name)
        object.__setattr__(self, "name", self.name or script.stem)
        object.__setattr__(self, "claim", self.claim or claim)

    def trials(self, scale: Scale, seeds: str | None = None) -> list[Trial]:
        """Every trial of the sweep at a scale, checked; a constructed model has one, since it does
        not depend on seeds. Raises ValueError naming the invalid cell.
        """
        self.check(scale)
        cells = self.checked_cells(scale)
        check_cells(cells)
        pairs = parse_seeds(self.seeds[scale] if seeds is None else seeds)
        trials = list[Trial]()
        for cell in cells:
            of_cell = pairs if cell.config.model.kind == "trained" else [(0, 0)]
            for pair, name in zip(of_cell, trial_ids(cell.config, of_cell), strict=True):
                config = replace(cell.config, seed=pair[0], data_seed=pair[1])
                trials.append(Trial(cell=cell, config=config, id=name))
        return trials

    def check(self, scale: Scale) -> None:
        """Raise ValueError for what is no name, text or number of replicates, and for the name of
        another script. Not done when a sweep is made: a script that is run would end with a
        traceback.
        """
        if not (isinstance(self.name, str) and NAME.fullmatch(self.name)):
            raise ValueError(f"name={self.name!r} of a sweep is not letters, digits and -_.,=+~")
        script = script_of(self.cells)[0].resolve()
        shipped = SCRIPTS / script.name
        is_another = script != shipped and script.is_file() and shipped.is_file()
        if is_another and script.read_text() != shipped.read_text():
            raise ValueError(f"{script} has the name of a sweep of pcore: give it another one")
        for what, text in (("title", self.title), ("claim", self.claim)):
            if not isinstance(text, str) or (what == "title" and not _is_line(text)):
                raise ValueError(f"{self.name}: its {what} is not a line of text but {text!r}")
        seeds: object = self.seeds
        if not isinstance(seeds, Mapping) or not isinstance(seeds.get(scale), str):
            raise ValueError(
                f'{self.name}: seeds={seeds!r} holds no text like "4" or "4x2" at scale {scale}'
            )

    def checked_cells(self, scale: Scale) -> list[Cell]:
        """The cells at a scale. Raises ValueError if that is not what the script gives."""
        with own_errors(f"{self.name} at scale {scale}", ValueError):
            cells: object = self.cells(scale)
            found: list[Any] = [*cells] if isinstance(cells, Iterable) else [cells]
        for cell in found:
            if not isinstance(cell, Cell):
                raise ValueError(
                    f"{self.name} at scale {scale}: cells gives {cell!r}, which is no Cell"
                )
            if not (isinstance(cell.label, str) and _is_line(cell.label)):
                raise ValueError(f"{self.name}: a label is not a line of text but {cell.label!r}")
            if not isinstance(cell.config, TrialConfig):
                raise ValueError(f"{self.name}: config of cell {cell.label!r} is no TrialConfig")
        return found


def script_of(function: object) -> tuple[Path, str]:
    """The file that defines a function, and its docstring; empty if unknown."""
    code, names = (getattr(function, name, None) for name in ("__code__", "__globals__"))
    return Path(code.co_filename if code else ""), (names or {}).get("__doc__") or ""


@contextmanager
def own_errors(what: str, *plain: type[Exception]) -> Generator[None]:
    """Whatever a script of the user's own raises in the block, but errors of these plain kinds, is
    a ValueError in one sentence.
    """
    try:
        yield
    except plain:
        raise
    except (Exception, SystemExit) as error:
        ends = isinstance(error, SystemExit)
        reason = f"it calls sys.exit({error.code})" if ends else describe_error(error)
        raise ValueError(f"{what}: {reason}") from error


def _is_line(text: str) -> bool:
    """Whether a text is one line with something in it."""
    return bool(text.strip()) and text.isprintable()


def axis(field: str, *values: Any) -> tuple[Point, ...]:
    """An axis over one field, e.g. axis("model.num_layers", 1, 2, 3); labels are "num_layers=1",
    ...
    """
    name = field.rpartition(".")[2]
    return tuple(
        Point(label=f"{name}={value}", changes={field: value}, value=value) for value in values
    )


def arms(points: Mapping[str, Mapping[str, Any]]) -> tuple[Point, ...]:
    """An axis of named arms, each a set of changed fields."""
    return tuple(Point(label=label, changes=changes) for label, changes in points.items())


def grid(base: TrialConfig, **axes: Sequence[Point]) -> list[Cell]:
    """Cells of every combination of the axes, the last axis fastest."""
    return [_cell(base, axes, points) for points in itertools.product(*axes.values())]


def zipped(base: TrialConfig, **axes: Sequence[Point]) -> list[Cell]:
    """Cells that take the first point of every axis, then the second, ... Raises ValueError on
    unequal lengths.
    """
    if len({len(points) for points in axes.values()}) > 1:
        sizes = ", ".join(f"{name} {len(points)}" for name, points in axes.items())
        raise ValueError(f"zipped axes differ in length: {sizes}")
    return [_cell(base, axes, points) for points in zip(*axes.values(), strict=True)]


def one_at_a_time(base: TrialConfig, base_label: str, **axes: Sequence[Point]) -> list[Cell]:
    """The base cell, then each point of each axis alone; points that equal the base are left
    out.
    """
    base = without_seeds(base)
    others, home = list[Cell](), dict[str, Coordinate]()
    for name, points in axes.items():
        cells = [_cell(base, [name], [point]) for point in points]
        others += [cell for cell in cells if cell.config != base]
        same = [cell.axes[name] for cell in cells if cell.config == base]
        home[name] = same[0] if same else base_label
    return [Cell(label=base_label, config=base, axes=home), *others]


def _cell(base: TrialConfig, names: Iterable[str], points: Sequence[Point]) -> Cell:
    """The cell at these points of the axes of these names."""
    changes = {field: value for point in points for field, value in point.changes.items()}
    label = ", ".join(point.label for point in points)
    axes = {name: point.coordinate for name, point in zip(names, points, strict=True)}
    return Cell(label=label, config=without_seeds(override(base, changes)), axes=axes)


def check_cells(cells: Sequence[Cell]) -> None:
    """Raise ValueError for a cell that cannot work, a label used twice or a configuration listed
    twice.
    """
    from pcore.validation import validate  # imports torch, and `--help` checks nothing

    problems: dict[str, ValueError] = {}
    by_label: dict[str, Cell] = {}
    by_id: dict[str, Cell] = {}
    for cell in cells:
        try:
            validate(cell.config)
        except ValueError as error:
            problems[cell.label] = error
        if cell.label in by_label:
            raise ValueError(f"two cells are called {cell.label!r}")
        if cell.id in by_id:
            raise ValueError(
                f"cells {by_id[cell.id].label!r} and {cell.label!r} are the same configuration"
            )
        by_label[cell.label] = by_id[cell.id] = cell
    if problems:
        (label, first), *others = problems.items()
        text = f"cell {label!r}: {first}"
        if len(problems) < len(cells):
            more = f", and {len(others)} more" if others else ""
            text += f"; leave it out with --except {label!r}{more}"
        raise ValueError(text) from first


def parse_seeds(text: str) -> list[tuple[int, int]]:
    """Pairs (seed, data_seed): "3" = (0, 0), (1, 1), (2, 2); "4x2" = 4 model seeds crossed with 2
    data seeds; "4x2@100" = the same, counted from 100; "2,4x2@100" = both.
    """
    return list(dict.fromkeys(pair for part in text.split(",") for pair in _parse_seeds(part)))


def _parse_seeds(text: str) -> list[tuple[int, int]]:
    counts_text, at, first_text = text.lower().partition("@")
    parts = counts_text.split("x")
    numbers_ok = all(part.isdecimal() and int(part) > 0 for part in parts)
    if len(parts) > 2 or not numbers_ok or (at and not first_text.isdecimal()):
        raise ValueError(
            f"--seeds {text!r} is neither a count like 3 nor model seeds x data seeds like 4x2, "
            "from a first seed on like 4x2@100, or several like 2,4x2@100"
        )
    first = int(first_text or 0)
    if (count := math.prod(map(int, parts))) > MAX_REPLICATES:
        raise ValueError(f"--seeds {text!r} are {count:,} replicates, above {MAX_REPLICATES:,}")
    if first > MAX_SEED:
        raise ValueError(f"--seeds {text!r} starts above {MAX_SEED:,}")
    counts = [range(first, first + int(part)) for part in parts]
    if len(counts) == 1:
        return [(seed, seed) for seed in counts[0]]
    return [(seed, data_seed) for seed in counts[0] for data_seed in counts[1]]
