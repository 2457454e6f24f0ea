"""What the published store says, as text: tables, numbers drawn, verdicts, rows, ids, refusals.

Each part is a generator of (file name, text). Where it can it gives commands, so that it outlives
the modules behind them. A line that begins with "$" is such a command, and is read from the file
itself: to add one, write it there. No paths, times, hosts or pixels are kept.
"""

import contextlib
import hashlib
import importlib
import io
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from matplotlib.collections import PathCollection, QuadMesh
from matplotlib.figure import Figure

from analysis.findings import VerdictRow
from sweeps.engine.store.store import Store

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
PUBLISHED = ROOT / "results" / "published"
STORES = ("laptop", "equal_flops", "replication", "rounding", "twice_the_steps")
TABLES = (".txt", ".md", ".tex", ".csv")
UNTESTED = ("not run", "not run at paper scale")
MOST_POINTS = 40  # of a line whose points are listed; of longer ones, a hash
Described = Iterator[tuple[str, str]]


def read_commands(file: Path) -> list[list[str]]:
    """The words of every command of a file, of which the first is a package."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return [shlex.split(line[2:]) for line in lines if line.startswith("$ ")]


def replay(file: Path) -> tuple[str, str]:
    """Every command of a file with what it answers now."""
    return file.stem, "\n".join(f"$ {shlex.join(w)}\n{run(*w)}" for w in read_commands(file))


def run(program: str, *words: str) -> str:
    """What a command prints and its exit code, in this process."""
    module = "pcore.cli" if program == "pcore" else f"{program}.__main__"
    main = importlib.import_module(module).main
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            code = main(list(words))
        except SystemExit as error:
            code = error.code
    text = out.getvalue().replace(f"{ROOT}/", "").replace(f"{FOLDER}", "SNAPSHOTS")
    return f"{text.rstrip()}\nexit {code}\n"


def views() -> list[tuple[str, str, str]]:
    """Folder, sweep and scale of everything published."""
    return [(name, *view) for name in STORES for view in Store(PUBLISHED / name).view_names()]


def describe_tables() -> Described:
    """Every table in every format; what the options of `table` and other commands print."""
    for view in views():
        yield "-".join(view[:2]), describe_view(*view)[0]
    with drawing_nothing():
        for file in (FOLDER / "tables").glob("option-*.txt"):
            ((_, _, *words),) = read_commands(file)
            said = table_files("laptop", *words)
            yield file.stem, f"$ {shlex.join(['analysis', 'table', *words])}\n{said}"
    yield replay(FOLDER / "tables" / "printed.txt")


def describe_figures() -> Described:
    """The numbers in every figure."""
    for view in views():
        yield "-".join(view[:2]), describe_view(*view)[1]


@cache
def describe_view(store: str, sweep: str, scale: str) -> tuple[str, str]:
    """The tables of a sweep, and the numbers in its figures."""
    figures = list[Figure]()
    with drawing_nothing(figures.append):
        tables = table_files(store, sweep, "--scale", scale)
    return tables, "\n".join(map(describe_figure, figures))


def table_files(store: str, sweep: str, *options: str) -> str:
    """What `analysis table` prints before it names files, and the tables among these."""
    with tempfile.TemporaryDirectory() as place:
        words = (sweep, "--results", str(PUBLISHED / store), "--out", f"{place}/out", *options)
        said = run("analysis", "table", *words).partition("written:")[0]
        files = [file for file in sorted(Path(place).rglob("*")) if file.suffix in TABLES]
        parts = [f"== {file.name}\n{read_table(file)}" for file in files]
        return "\n".join([f"== printed\n{said.replace(place, 'OUT')}", *parts])


def read_table(file: Path) -> str:
    """The text of a table, floats of CSV to nine digits; a hash where the same words are printed,
    of LaTeX, and of rows of single runs.
    """
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".csv":
        text = re.sub(r"-?\d+\.\d+(e-?\d+)?", lambda found: f"{float(found[0]):.9g}", text)
    is_printed = file.suffix == ".md" and file.stem != "comparisons"
    is_hashed = is_printed or file.suffix == ".tex" or file.stem == "runs"
    return f"{hash_text(text)}\n" if is_hashed else text


def drawing_nothing(keep: Callable[[Figure], object] = lambda _: None) -> Any:
    """Figures are made and handed to `keep`, neither laid out nor drawn."""
    return patch("analysis.figures.style.save", lambda figure, *_: keep(figure) or [])


def describe_figure(figure: Figure) -> str:
    """Axes with their names, and the numbers of every line, bar, segment, point and map."""
    lines = [f"== figure {figure.get_suptitle()}".rstrip()]
    for axes in figure.axes:
        names = (axes.get_title(), axes.get_xlabel(), axes.get_ylabel())
        lines.append(f"-- {' | '.join(name.replace(chr(10), ' ') for name in names)}")
        lines += [f"{kind} {points}" for kind, points in read_marks(axes) if points]
        lines += [f"text {text.get_text()!r}" for text in axes.texts if text.get_text()]
    return "\n".join(lines) + "\n"


def read_marks(axes: Any) -> Iterator[tuple[str, str]]:
    """Kind and numbers of what an Axes shows."""
    for line in axes.lines:
        yield "line", show_numbers(np.column_stack(line.get_data()))
    for bar in axes.patches:
        yield "bar", show_numbers(bar.get_patch_transform().transform_path(bar.get_path()).vertices)
    for drawn in axes.collections:
        if isinstance(drawn, QuadMesh):
            yield "map", show_numbers(drawn.get_array())
        elif isinstance(drawn, PathCollection):
            yield "points", show_numbers(drawn.get_offsets())
        else:
            for path in drawn.get_paths():
                yield "path", show_numbers(path.vertices)
    for image in axes.images:
        yield "map", show_numbers(image.get_array())


def show_numbers(values: Any) -> str:
    """Points as x:y, other arrays as rows, to five digits; many of them as their hash."""
    array = np.ma.filled(np.ma.asarray(values).astype(float), np.nan)
    rows = array.reshape(len(array), -1) if array.ndim else array.reshape(1, 1)
    text = " ".join(":".join(f"{value:.5g}" for value in row) for row in rows)
    return f"{len(rows)} x {rows.shape[1]} {hash_text(text)}" if len(rows) > MOST_POINTS else text


def describe_verdicts() -> Described:
    """Every verdict with its evidence."""
    from analysis.findings import judge, load_findings
    from analysis.load import load_sweep

    for name in STORES:
        store = Store(PUBLISHED / name)
        views = [load_sweep(store, *view) for view in store.view_names()]
        rows = sorted(judge(load_findings(), views), key=lambda row: (row.finding.sweep, row.text))
        if name != STORES[0]:  # they hold two sweeps
            rows = [row for row in rows if row.verdict not in UNTESTED]
        yield name, "\n\n".join(map(describe_verdict, rows)) + "\n"


def describe_verdict(row: VerdictRow) -> str:
    """What is said of a finding, a line for each fact."""
    finding, decision = row.finding, row.decision
    facts = {
        "finding": row.text,
        "published": finding.published,
        "ours": decision.ours,
        "scale": row.scale,
        "verdict": row.verdict,
        "certainty": finding.certainty,
        "rule": "; and ".join(part.text for part in row.rule or ()),
        "source": finding.source,
        "sweep": finding.sweep,
        "n": decision.n,
        "least_p": None if np.isnan(decision.least_p) else decision.least_p,
        "remark": finding.remark,
        "is_weaker": row.is_weaker,
    }
    return "\n".join(f"{key}: {value}" for key, value in facts.items())


def describe_rows() -> Described:
    """Columns of `read_rows`, with their types and a hash of their values; trials of each cell."""
    from analysis.rows import read_rows

    for store, sweep, scale in views():
        rows = read_rows(PUBLISHED / store, sweep, scale, checkpoint=None)
        lines = [f"{len(rows)} rows"]
        for name, column in rows.items():
            values = column.map(lambda v: f"{v:.12g}" if isinstance(v, float) else str(v))
            lines.append(f"{name} {column.dtype} {hash_text(*values)}")
        lines += [
            f"cell {cell}: {' '.join(ids)}"
            for cell, ids in rows.groupby("cell", sort=False)["trial_id"].unique().items()
        ]
        yield f"{store}-{sweep}", "\n".join(lines) + "\n"


def describe_ids() -> Described:
    """The ids of every trial of every script: their number and hash by cell."""
    for script in sorted((ROOT / "sweeps").glob("*.py")):
        if "\nSWEEP = " not in script.read_text(encoding="utf-8"):
            continue
        sweep, lines = importlib.import_module(f"sweeps.{script.stem}").SWEEP, list[str]()
        for scale in ("smoke", "laptop", "paper"):
            cells = dict[str, list[str]]()
            for trial in sweep.trials(scale):
                cells.setdefault(trial.cell.label, []).append(trial.id)
            lines += [f"{scale} | {c} | {len(ids)} {hash_text(*ids)}" for c, ids in cells.items()]
        yield script.stem, "\n".join(lines) + "\n"


def describe_refusals() -> Described:
    """What command lines are answered that are refused."""
    yield from map(replay, (FOLDER / "refusals").glob("*.txt"))


def hash_text(*texts: str) -> str:
    """Ten digits of a hash."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:10]


PARTS: dict[str, Callable[[], Described]] = {
    "tables": describe_tables,
    "figures": describe_figures,
    "verdicts": describe_verdicts,
    "rows": describe_rows,
    "ids": describe_ids,
    "refusals": describe_refusals,
}
