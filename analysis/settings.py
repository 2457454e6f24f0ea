"""Our settings compared with the published ones, cell by cell, with reasons for differences.

`settings.toml` holds the published rows, which cells stand for which row, and the reasons.
Every field of a configuration is compared: what no row names has to be the default of the row's
task and of `TrialConfig`, which are the published settings of addition. This module does not import
the sweeps: a cell is its label, its flat configuration and the seeds of its runs, from a row of the
store or from a script.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.load import Results, cell_configs
from analysis.tables.sweep_tables import Table, text_table
from pcore.config import SEEDS, TrialConfig, coerce, flatten, override

FILE = Path(__file__).with_name("settings.toml")
NOT_NAMED = "not named"  # by any source
SHORT = {  # names of the file for fields of a configuration; all others have their own name there
    "layers": "model.num_layers",
    "heads": "model.num_heads",
    "d_model": "model.d_model",
    "d_head": "model.d_head",
    "d_ff": "model.d_ff",
    "steps": "optim.num_steps",
    "batch": "optim.batch_size",
    "lr": "optim.learning_rate",
    "warmup": "optim.warmup_fraction",
    "final_lr": "optim.final_lr_fraction",
    "beta2": "optim.beta2",
    "weight_decay": "optim.weight_decay",
    "clip": "optim.grad_clip",
    "encoding": "position.encoding",
    "ids": "position.ids",
    "start": "position.start",
    "id_scale": "position.id_scale_max",
    "level_tables": "position.level_tables",
    "table_init": "position.table_init",
    "query_init": "model.query_init",
    "attention_scale": "model.attention_scale",
    "attention_factor": "eval.attention_factor",
    "examples": "data.num_examples",
    "test_examples": "eval.num_examples",
    "tested_second": "eval.second_lengths",
    "checkpoints": "eval.checkpoints",
}
JOINED = {  # names of the file for several fields
    "norm": ("model.norm", "model.norm_placement"),
    "max_position": ("position.max_position", "position.max_positions"),
    "train": ("data.min_length", "data.max_length"),
    "tested_every": ("eval.test_lengths",),  # with tested_to
}
# Every experiment has its own: a source that is silent about these does not mean the default.
OWN = ("layers", "heads", "d_model", "d_head", "batch", "lr", "max_position", "examples", "train",
       "tested_to")  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One field of one cell. stated: what the file says that ours is, the published value if it
    says nothing; why: "" if no reason stands in the file."""

    cell: str
    field: str
    published: Any
    stated: Any
    ours: Any
    why: str
    source: str

    @property
    def differs(self) -> bool:
        return self.published != self.ours

    @property
    def is_explained(self) -> bool:
        """Whether ours is what the file says, with a reason where that is not published."""
        return self.ours == self.stated and bool(self.why or not self.differs)


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """Cells of a sweep that stand for one published row.

    cells: pattern of labels: published values of these cells alone; ours: pattern of labels: our
    values where they differ. Of several patterns that match, all count, the last one most.
    """

    sweep: str
    row: str
    cells: Mapping[str, Mapping[str, Any]]
    ours: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    why: Mapping[str, str] = field(default_factory=dict)  # reasons by field


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """The file, read."""

    rows: Mapping[str, Mapping[str, Any]]  # with what they inherit
    arms: Sequence[Arm]
    ours: Mapping[str, Any]  # our values in all arms, where they differ
    why: Mapping[str, str]  # reasons for all arms

    def knows(self, sweep: str) -> bool:
        """Whether the file has any arm of a sweep."""
        return any(arm.sweep == sweep for arm in self.arms)

    def arm_of(self, sweep: str, cell: str) -> Arm | None:
        """The arm that a cell belongs to, the first that has a pattern for it; None if none has."""
        arms = (arm for arm in self.arms if arm.sweep == sweep)
        return next((arm for arm in arms if matching(arm.cells, cell)), None)

    def compare(self, sweep: str, cell: str, config: Mapping[str, Any], runs: str) -> list[Line]:
        """Every field of a cell, of its flat configuration and the layout of its seeds.

        Raises ValueError if no arm of the file matches the cell.
        """
        arm = self.arm_of(sweep, cell)
        if arm is None:
            raise ValueError(f"{FILE.name} has no arm for the cell {cell!r} of {sweep}")
        row = {**self.rows[arm.row], **_merged(arm.cells, cell)}
        published = _defaults(row.get("task.name", "addition")) | row
        stated = {**published, **self.ours, **_merged(arm.ours, cell)}
        reasons = {**self.why, **arm.why}
        return [
            Line(
                cell=cell,
                field=name,
                published=published.get(name, NOT_NAMED),
                stated=stated.get(name, NOT_NAMED),
                ours=value,
                why=reasons.get(name, ""),
                source=published["source"],
            )
            for name, value in describe(config, runs).items()
        ]


def matching(patterns: Iterable[str], cell: str) -> list[str]:
    """The patterns that a label matches, in order."""
    return [pattern for pattern in patterns if fnmatchcase(cell, pattern)]


def _merged(values: Mapping[str, Mapping[str, Any]], cell: str) -> dict[str, Any]:
    """The values of all patterns that a label matches."""
    found: dict[str, Any] = {}
    for pattern in matching(values, cell):
        found |= values[pattern]
    return found


@lru_cache
def _defaults(task: str) -> dict[str, Any]:
    """The fields of a configuration of this task that nothing was changed in, without `OWN`."""
    default = flatten(override(TrialConfig(), {"task.name": task}))
    values = describe(default, "")
    values["position.max_position"] = default["position.max_position"]
    return {name: value for name, value in values.items() if name not in (*OWN, "runs")}


@lru_cache
def load_published(file: Path = FILE) -> Published:
    """Read the file. Raises KeyError if an arm or a row names a missing row."""
    content = tomllib.loads(file.read_text(encoding="utf-8"))
    rows = {name: _dotted(values) for name, values in content["rows"].items()}
    return Published(
        rows={name: _inherit(rows, name) for name in rows},
        arms=[_read_arm(arm) for arm in content["arms"]],
        ours=_dotted(content["ours"]),
        why=_dotted(content["why"]),
    )


def _read_arm(arm: Mapping[str, Any]) -> Arm:
    cells, ours = (
        {pattern: _dotted(values) for pattern, values in arm.get(name, {}).items()}
        for name in ("cells", "ours")
    )
    why = _dotted(arm.get("why", {}))
    return Arm(sweep=arm["sweep"], row=arm["row"], cells=cells, ours=ours, why=why)


def _dotted(values: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """{"task": {"zero_pad": False}}, as TOML has it, as {"task.zero_pad": False}."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= _dotted(value, f"{before}{name}.")
        else:
            found[before + name] = value
    return found


def _inherit(rows: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Any]:
    if name == "common":
        return dict(rows["common"])
    own = {key: value for key, value in rows[name].items() if key != "like"}
    return _inherit(rows, rows[name].get("like", "common")) | own


def describe(flat: Mapping[str, Any], runs: str) -> dict[str, Any]:
    """A flat configuration in the names of the file: every field but seeds.

    Left out: fields of positions where there is no encoding. Own code is not imported.
    """
    has_positions = flat["position.encoding"] != "none"
    lengths, seconds = (_numbers(flat[f"eval.{name}_lengths"]) for name in ("test", "second"))
    values = {name: flat[path] for name, path in SHORT.items()}
    values["examples"] = "endless" if values["examples"] is None else values["examples"]
    values["norm"] = f"{flat['model.norm']} {flat['model.norm_placement']}"
    values["max_position"] = flat["position.max_positions"] or flat["position.max_position"]
    values["train"] = f"{flat['data.min_length']}-{flat['data.max_length']}"
    values["tested_to"] = " x ".join(str(max(numbers)) for numbers in (lengths, seconds) if numbers)
    values["tested_every"] = _step(lengths, flat["data.max_length"]) or flat["eval.test_lengths"]
    values["runs"] = runs
    known = {*SHORT.values(), *SEEDS, *(path for paths in JOINED.values() for path in paths)}
    values |= {name: value for name, value in flat.items() if name not in known}
    if flat["position.max_positions"]:  # then unused
        values["position.max_position"] = flat["position.max_position"]
    return {
        name: value for name, value in values.items() if has_positions or not _is_position(name)
    }


def _is_position(name: str) -> bool:
    """Whether a name of the file means nothing without an encoding."""
    path = JOINED.get(name, (SHORT.get(name, name),))[0]
    return path.startswith("position.") and path != "position.encoding"


def _numbers(lengths: str) -> tuple[int, ...]:
    return coerce(lengths, tuple[int, ...], "lengths")


def _step(lengths: Sequence[int], longest: int) -> int:
    """k where the lengths are the multiples of k above the longest trained one, up to some length;
    0 where they are not."""
    if len(lengths) < 2 or (step := lengths[1] - lengths[0]) < 1:
        return 0
    first = (longest // step + 1) * step
    return step if lengths == tuple(range(first, lengths[-1] + 1, step)) else 0


def seed_layout(pairs: Iterable[tuple[int, int]]) -> str:
    """How the runs of a cell got their pairs of (seed, data_seed): "3" for equal ones, "4x2" for
    four seeds times two data seeds.
    """
    pairs = set(pairs)
    if all(seed == data_seed for seed, data_seed in pairs):
        return str(len(pairs))
    seeds, data_seeds = ({pair[i] for pair in pairs} for i in (0, 1))
    is_full = pairs == set(product(seeds, data_seeds))
    return f"{len(seeds)}x{len(data_seeds)}" if is_full else f"{len(pairs)} pairs, no full grid"


def compare_settings(results: Results, published: Published | None = None) -> list[Line]:
    """Every field of every cell that any trial was run of; nothing if the file does not know the
    sweep. A cell without an arm has one line, which nothing explains.
    """
    published = published or load_published()
    if not published.knows(results.sweep):
        return []
    pairs = dict[str, set[tuple[int, int]]]()
    view = results.view
    for cell, seed, data_seed in zip(view["cell"], view["seed"], view["data_seed"], strict=True):
        pairs.setdefault(cell, set()).add((int(seed), int(data_seed)))
    lines: list[Line] = []
    for cell, config in cell_configs(results).items():
        if published.arm_of(results.sweep, cell):
            runs = seed_layout(pairs[cell])
            lines += published.compare(results.sweep, cell, config, runs)
        else:
            lines.append(_unknown(cell))
    return lines


def _unknown(cell: str) -> Line:
    """The line of a cell that no arm of its sweep has a pattern for."""
    return Line(
        cell=cell,
        field="cell",
        published=NOT_NAMED,
        stated=NOT_NAMED,
        ours=cell,
        why="",
        source=FILE.name,
    )


def unexplained(lines: Sequence[Line]) -> list[Line]:
    """Fields that are neither published nor as the file states them with a reason: errors of the
    sweep or of the file."""
    return [line for line in lines if not line.is_explained]


def settings_table(results: Results) -> Table | None:
    """Where the cells of a sweep differ from what was published; None for a sweep that the file
    does not know, and at other scales than that of the papers.
    """
    if results.scale != "paper" or not load_published().knows(results.sweep):
        return None
    lines = compare_settings(results)
    header = ("cells", "setting", "published", "ours", "why")
    rows = list(_grouped(lines))
    sources = dict.fromkeys(line.source for line in lines)
    num_fields = len({line.field for line in lines})
    return text_table(
        title=f"Settings that differ from the published ones ({results.sweep})",
        header=header,
        rows=rows,
        notes=(
            f"{num_fields} settings of every cell are compared; the others are as published.",
            f"Sources: {'; '.join(sources)}. All rows: analysis/{FILE.name}.",
        ),
        numbers=pd.DataFrame(rows, columns=list(header)),
    )


def _grouped(lines: Sequence[Line]) -> Iterator[tuple[str, ...]]:
    """Differences, cells that have the same one together."""
    cells: dict[tuple[str, ...], list[str]] = {}
    for line in lines:
        if line.differs or not line.is_explained:
            why = line.why if line.is_explained else "NO REASON GIVEN"
            key = (line.field, str(line.published), str(line.ours), why)
            cells.setdefault(key, []).append(line.cell)
    count = len({line.cell for line in lines})
    for key, names in cells.items():
        yield ("all" if len(names) == count else "; ".join(names), *key)
