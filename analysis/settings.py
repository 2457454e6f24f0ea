"""Our settings compared with the published ones, cell by cell, with reasons for differences.

`settings.toml` holds the published rows, which cells stand for which row, and the reasons.
Every field of a configuration is compared: what no row names has to be the default of the row's
task and of `TrialConfig`, which are the published settings of addition. This module does not import
the sweeps: a cell is its label, its flat configuration and the seeds of its runs, from a row of the
store or from a script.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.load import Results, cell_configs
from analysis.tables.table import Table, plain, show
from pcore.config import SEEDS, TrialConfig, coerce, flatten, override

FILE = Path(__file__).with_name("settings.toml")
NOT_NAMED = "not named"  # by any source
# Every experiment has its own: a source that is silent about these does not mean the default.
OWN = ("num_layers", "num_heads", "d_model", "d_head", "batch_size", "learning_rate",
       "max_position", "data.num_examples", "train", "tested_to")  # fmt: skip
WHOLE = ("data.num_examples", "eval.num_examples")  # fields that the file names in full
RANGES = ("min_length", "max_length", "test_lengths")  # in the file: train, tested_to, tested_every


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One field of one cell. stated: what the file says that ours is, the published value if it
    says nothing; why: "" if no reason stands in the file."""

    cell: str
    field: str
    published: Any = NOT_NAMED
    stated: Any = NOT_NAMED
    ours: Any
    why: str = ""
    source: str = FILE.name

    @property
    def differs(self) -> bool:
        return self.published != self.ours

    @property
    def is_explained(self) -> bool:
        """Whether ours is what the file says, with a reason where that is not published."""
        return self.ours == self.stated and bool(self.why or not self.differs)


@lru_cache
def load_published(file: Path = FILE) -> dict[str, Any]:
    """The file: `rows` with what they inherit, `arms`, `ours` and `why`, all settings by their
    dotted names. Raises KeyError if an arm or a row names a missing row.
    """
    content = tomllib.loads(file.read_text(encoding="utf-8"))
    rows = {name: _inherit(content["rows"], name) for name in content["rows"]}
    arms = [_read_arm(arm) for arm in content["arms"]]
    assert all(arm["row"] in rows for arm in arms)
    own = {name: _dotted(content[name]) for name in ("ours", "why")}
    return {"rows": rows, "arms": arms, **own}


def _inherit(rows: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Any]:
    own = _dotted(rows[name])
    like = own.pop("like", "common")
    return own if name == "common" else _inherit(rows, like) | own


def _read_arm(arm: Mapping[str, Any]) -> dict[str, Any]:
    """Cells that stand for one row. cells, ours: by pattern of labels, the published values of
    these cells alone, and ours where they differ; why: reasons by field."""
    by_pattern = {
        name: {pattern: _dotted(values) for pattern, values in arm.get(name, {}).items()}
        for name in ("cells", "ours")
    }
    return {**arm, **by_pattern, "why": _dotted(arm.get("why", {}))}


def _dotted(values: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """{"task": {"zero_pad": False}}, as TOML has it, as {"task.zero_pad": False}."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        inner = isinstance(value, dict)
        found |= _dotted(value, f"{before}{name}.") if inner else {before + name: value}
    return found


def find_arm(published: Mapping[str, Any], sweep: str, cell: str) -> dict[str, Any] | None:
    """The arm that a cell belongs to, the first that has a pattern for it; None if none has."""
    arms = (arm for arm in published["arms"] if arm["sweep"] == sweep)
    return next((arm for arm in arms if matching(arm["cells"], cell)), None)


def matching(patterns: Iterable[str], cell: str) -> list[str]:
    """The patterns that a label matches, in order."""
    return [pattern for pattern in patterns if fnmatchcase(cell, pattern)]


def compare(
    published: Mapping[str, Any], sweep: str, cell: str, config: Mapping[str, Any], runs: str
) -> list[Line]:
    """Every field of a cell, of its flat configuration and the layout of its seeds. A cell without
    an arm has one line, which nothing explains.
    """
    arm = find_arm(published, sweep, cell)
    if arm is None:
        return [Line(cell=cell, field="cell", ours=cell)]
    of_cell = {  # of several patterns that match, all count, the last one most
        name: {k: v for pattern in matching(arm[name], cell) for k, v in arm[name][pattern].items()}
        for name in ("cells", "ours")
    }
    row = published["rows"][arm["row"]] | of_cell["cells"]
    row = _defaults(row.get("task.name", "addition")) | row
    stated = row | published["ours"] | of_cell["ours"]
    reasons = published["why"] | arm["why"]
    return [
        Line(
            cell=cell,
            field=name,
            published=row.get(name, NOT_NAMED),
            stated=stated.get(name, NOT_NAMED),
            ours=value,
            why=reasons.get(name, ""),
            source=row["source"],
        )
        for name, value in describe(config, runs).items()
    ]


@lru_cache
def _defaults(task: str) -> dict[str, Any]:
    """The fields of a configuration of this task that nothing was changed in, without `OWN`."""
    default = flatten(override(TrialConfig(), {"task.name": task}))
    values = describe(default, "") | {"position.max_position": default["position.max_position"]}
    return {name: value for name, value in values.items() if name not in (*OWN, "runs")}


def short_name(field: str) -> str:
    """The name of a field of a configuration in the file."""
    return field if field in WHOLE or field.startswith("task.") else field.rpartition(".")[2]


def describe(flat: Mapping[str, Any], runs: str) -> dict[str, Any]:
    """A flat configuration in the names of the file: every field but seeds.

    Left out: fields of positions where there is no encoding. Own code is not imported.
    """
    unused = ["position.max_positions"]  # it stands for max_position where it is set
    if flat["position.encoding"] == "none":
        unused += [name for name in flat if name.startswith("position.")]
        unused.remove("position.encoding")
    names = {name: short_name(name) for name in flat if name not in (*SEEDS, *unused)}
    values = {short: flat[name] for name, short in names.items() if short not in RANGES}
    lengths, seconds = (
        coerce(flat[f"eval.{name}_lengths"], tuple[int, ...], "lengths")
        for name in ("test", "second")
    )
    if values["data.num_examples"] is None:
        values["data.num_examples"] = "endless"
    values["train"] = f"{flat['data.min_length']}-{flat['data.max_length']}"
    values["tested_to"] = " x ".join(str(max(numbers)) for numbers in (lengths, seconds) if numbers)
    values["tested_every"] = _step(lengths, flat["data.max_length"]) or flat["eval.test_lengths"]
    values["runs"] = runs
    if "max_position" in values and flat["position.max_positions"]:
        values["max_position"] = flat["position.max_positions"]
        values["position.max_position"] = flat["position.max_position"]  # then unused
    return values


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


def compare_settings(results: Results) -> list[Line]:
    """Every field of every cell that any trial was run of; nothing if the file does not know the
    sweep.
    """
    published = load_published()
    if not any(arm["sweep"] == results.sweep for arm in published["arms"]):
        return []
    view, lines = results.view, list[Line]()
    for cell, config in cell_configs(results).items():
        pairs = view.loc[view["cell"] == cell, ["seed", "data_seed"]].astype(int)
        layout = seed_layout(pairs.itertuples(index=False, name=None))
        lines += compare(published, results.sweep, cell, config, layout)
    return lines


def unexplained(lines: Sequence[Line]) -> list[Line]:
    """Fields that are neither published nor as the file states them with a reason: errors of the
    sweep or of the file."""
    return [line for line in lines if not line.is_explained]


def settings_table(results: Results) -> Table | None:
    """Where the cells of a sweep differ from what was published, cells that have the same
    difference together; None for a sweep that the file does not know, and at other scales than
    that of the papers.
    """
    lines = compare_settings(results) if results.scale == "paper" else []
    if not lines:
        return None
    alike = dict[tuple[str, Any, Any, str], list[str]]()
    for line in lines:
        if line.differs or not line.is_explained:
            why = line.why if line.is_explained else "NO REASON GIVEN"
            alike.setdefault((line.field, line.published, line.ours, why), []).append(line.cell)
    count = len({line.cell for line in lines})
    names = ["cells", "setting", "published", "ours", "why"]
    rows = [("all" if len(c) == count else "; ".join(c), *key) for key, c in alike.items()]
    sources = "; ".join(dict.fromkeys(line.source for line in lines))
    notes = (
        f"{len({line.field for line in lines})} settings of every cell are compared; the others "
        "are as published.",
        f"Sources: {sources}. All rows: analysis/{FILE.name}.",
    )
    title = f"Settings that differ from the published ones ({results.sweep})"
    frame = pd.DataFrame(rows, columns=names, dtype=object)
    return show([plain(name) for name in names[1:]], frame, title, notes, first="cells")
