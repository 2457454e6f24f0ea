"""Our settings compared with the published ones, cell by cell, with reasons for differences.

`hyperparameters.toml` holds the published rows, which cells stand for which row, and the reasons.
This module does not import the sweeps: a cell is its label, its flat configuration and its number
of runs, from a row of the store or from a script.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.configs import cell_configs
from analysis.load import Results
from analysis.tables.sweep_tables import Table, text_table
from pcore.config import unflatten
from pcore.registry import own_code

FILE = Path(__file__).with_name("hyperparameters.toml")
FIELDS = {  # names of the file: fields of a configuration that are compared as they are
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
    "start": "position.start",
    "table_init": "position.table_init",
    "query_init": "model.query_init",
    "attention_scale": "model.attention_scale",
    "attention_factor": "eval.attention_factor",
    "examples": "data.num_examples",
    "test_examples": "eval.num_examples",
}
NO_POSITIONS = ("start", "table_init", "max_position")  # mean nothing without an encoding
NO_TABLE = ("table_init",)  # means nothing where no table is learned


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One field of one cell. published: None if no source names it; why: "" if no reason stands in
    the file."""

    cell: str
    field: str
    published: Any
    ours: Any
    why: str
    source: str

    @property
    def differs(self) -> bool:
        return self.published != self.ours


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """Cells of a sweep that stand for one published row."""

    sweep: str
    row: str  # "" if nothing is trained
    cells: Mapping[str, Mapping[str, Any]]  # pattern of labels: published values of these alone
    why: Mapping[str, str] = field(default_factory=dict)  # reasons by field
    untrained: str = ""  # why there is nothing to compare


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """The file, read."""

    rows: Mapping[str, Mapping[str, Any]]  # with what they inherit
    arms: Sequence[Arm]
    why: Mapping[str, str]  # reasons for all arms

    def arm_of(self, sweep: str, cell: str) -> tuple[Arm, str] | None:
        """The arm that a cell belongs to, and the pattern that matched; None if there is none."""
        for arm in self.arms:
            for pattern in arm.cells if arm.sweep == sweep else ():
                if fnmatchcase(cell, pattern):
                    return arm, pattern
        return None

    def compare(self, sweep: str, cell: str, config: Mapping[str, Any], runs: int) -> list[Line]:
        """Every field of a cell, of its flat configuration and number of runs.

        Raises ValueError if no arm of the file matches the cell.
        """
        found = self.arm_of(sweep, cell)
        if found is None:
            raise ValueError(f"{FILE.name} has no arm for the cell {cell!r} of {sweep}")
        arm, pattern = found
        if arm.untrained:
            return []
        row = {**self.rows[arm.row], **arm.cells[pattern]}
        reasons = {**self.why, **arm.why}
        return [
            Line(
                cell=cell,
                field=name,
                published=row.get(name),
                ours=value,
                why=reasons.get(name, ""),
                source=row["source"],
            )
            for name, value in describe(config, runs).items()
        ]


@lru_cache
def load_published(file: Path = FILE) -> Published:
    """Read the file. Raises KeyError if an arm or a row names a missing row."""
    content = tomllib.loads(file.read_text(encoding="utf-8"))
    rows = {name: _inherit(content["rows"], name) for name in content["rows"]}
    arms = [Arm(**({"row": ""} | arm)) for arm in content["arms"]]
    return Published(rows=rows, arms=arms, why=content["why"])


def _inherit(rows: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Any]:
    if name == "common":
        return dict(rows["common"])
    own = {key: value for key, value in rows[name].items() if key != "like"}
    return _inherit(rows, rows[name].get("like", "common")) | own


def describe(flat: Mapping[str, Any], runs: int) -> dict[str, Any]:
    """A flat configuration in the fields of the file; those that mean nothing for it left out.

    Own code is not imported: its cells stand there with its name alone.
    """
    if names := own_code(flat):
        return {"code": ", ".join(f"{field}={name}" for field, name in names.items()), "runs": runs}
    config = unflatten(flat)
    values = {name: _value(config, path) for name, path in FIELDS.items()}
    position, lengths = config.position, config.eval.test_lengths
    seconds = config.eval.second_lengths
    values["norm"] = f"{config.model.norm} {config.model.norm_placement}"
    values["max_position"] = list(position.max_positions) or position.max_position
    values["train"] = f"{config.data.min_length}-{config.data.max_length}"
    values["tested_to"] = " x ".join(str(max(n)) for n in (lengths, seconds) if n)
    values["runs"] = runs
    if position.encoding not in ("learned", "mixture"):
        values = {name: value for name, value in values.items() if name not in NO_TABLE}
    if position.encoding == "none":
        values = {name: value for name, value in values.items() if name not in NO_POSITIONS}
    return values


def _value(config: Any, path: str) -> Any:
    for name in path.split("."):
        config = getattr(config, name)
    return config


def compare_settings(results: Results, published: Published | None = None) -> list[Line]:
    """Every field of every cell that any trial was run of. Cells without an arm are left out."""
    published = published or load_published()
    runs = results.view.groupby("cell")["trial_id"].nunique()
    return [
        line
        for cell, config in cell_configs(results).items()
        if published.arm_of(results.sweep, cell)
        for line in published.compare(results.sweep, cell, config, int(runs[cell]))
    ]


def unexplained(lines: Sequence[Line]) -> list[Line]:
    """Differences without a reason: errors of the sweep or of the file."""
    return [line for line in lines if line.differs and not line.why]


def settings_table(results: Results) -> Table | None:
    """Where the cells of a sweep differ from what was published; None for a sweep that the file
    does not know, and at other scales than that of the papers.
    """
    known = any(arm.sweep == results.sweep for arm in load_published().arms)
    if results.scale != "paper" or not known:
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
            f"Sources: {'; '.join(sources)}. All rows: analysis/claims/{FILE.name}.",
        ),
        numbers=pd.DataFrame(rows, columns=list(header)),
    )


def _grouped(lines: Sequence[Line]) -> Iterator[tuple[str, ...]]:
    """Differences, cells that have the same one together."""
    cells: dict[tuple[str, ...], list[str]] = {}
    for line in lines:
        if line.differs:
            shown = "not named" if line.published is None else str(line.published)
            ours = "endless" if line.ours is None else str(line.ours)
            key = (line.field, shown, ours, line.why or "NO REASON GIVEN")
            cells.setdefault(key, []).append(line.cell)
    count = len({line.cell for line in lines})
    for key, names in cells.items():
        yield ("all" if len(names) == count else "; ".join(names), *key)
