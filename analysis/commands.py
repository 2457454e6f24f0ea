"""The commands of `python -m analysis`, one function each."""

import argparse
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from analysis import load
from analysis.load import Results
from analysis.tables import files, render
from analysis.tables.table import Table
from sweeps.engine.store.address import parse_address
from sweeps.engine.store.folder import Folder
from sweeps.engine.store.location import find_existing, find_reports
from sweeps.engine.store.store import Store
from sweeps.tables import TABLES

SCALES = ("smoke", "laptop", "paper")
RANGES = ("train", "near", "test")
Draw: TypeAlias = Callable[[Path], Iterable[Path]]  # figures into a folder


def show_table(options: argparse.Namespace) -> int:
    """Print the table; write it in all formats, and every figure."""
    results = load.load_sweep(options.results, *_view(options), options.checkpoint)
    policy = "" if options.checkpoint == "last" else f"-{options.checkpoint}"
    name = f"{results.sweep}-{results.scale}{policy}"
    if options.over and not options.metric:
        raise ValueError("--over needs a --metric, e.g. exact_match")
    if options.over and options.lengths:
        raise ValueError("--over means all lengths of a range: leave out --lengths")
    if options.metric or options.only or options.lengths:
        _write_table(*_select(results, options), name, options)
    else:

        def draw(folder: Path) -> Iterable[Path]:
            from analysis.figures.choose import draw_files  # after the table is printed

            return draw_files(results, folder)

        _write_table(*files.table_files(results), draw, name, options)
    return 0


def _select(results: Results, options: argparse.Namespace) -> tuple[Table, dict[str, str], Draw]:
    """A table of some cells, at some lengths or of another metric; of exact match, with figures."""
    from analysis.figures.choose import draw_files
    from analysis.tables.metric_table import metric_table
    from analysis.tables.sweep_tables import ablation_table

    chosen, stem = load.select_cells(results, options.only) if options.only else results, "selected"
    if options.metric:
        table = metric_table(chosen, options.metric, options.over, options.lengths)
        part = "selected" if options.only or options.lengths else ""
        stem = "-".join(filter(None, ("metric", options.metric, options.over, part)))
    else:
        table = ablation_table(chosen, options.lengths)
    if len(chosen.cells) < len(results.cells):
        count = f"{len(chosen.cells)} of the {len(results.cells)} cells of the sweep are shown."
        table = replace(table, notes=(count, *table.notes))

    def draw(folder: Path) -> Iterable[Path]:
        return [] if options.metric else draw_files(chosen, folder, f"{stem}-")

    return table, render.render_files(table, stem), draw


def _write_table(
    table: Table, texts: Mapping[str, str], draw: Draw, name: str, options: argparse.Namespace
) -> None:
    """Print a table, then write its files and draw its figures: all that needs a folder."""
    folder = _out(options) or _reports(options.results) / name
    print(render.render_text(table), flush=True)
    written = files.write_files(folder, texts)
    _show_written([*written, *draw(folder)])


def make_report(options: argparse.Namespace) -> int:
    """Write one HTML page: findings, every cell with its curves, tables, figures."""
    from analysis.report.page import make_page

    store = Store(options.results)
    views = store.view_names()
    for name in sorted(set(options.sweeps) - {sweep for sweep, _ in views}):
        load.check_view(store, name, options.scale or "laptop")
    selected = [
        (sweep, scale)
        for sweep, scale in sorted(views, key=_report_order)
        if options.scale in (None, scale) and sweep in (options.sweeps or [sweep])
    ]
    if not selected:
        raise ValueError(f"no sweep to report on in {options.results}")
    folder = _out(options) or _reports(options.results)
    name = options.results if "://" in options.results else files.relative(Path(options.results))
    page, left_out = make_page(store, selected, options.checkpoint, shlex.quote(str(name)))
    (written,) = files.write_files(folder, {"report.html": page})
    for sentence in left_out:
        print(f"left out: {sentence}", file=sys.stderr)
    print(f"written: {files.relative(written)}\nopen: {written.resolve().as_uri()}")
    return 0


def compare(options: argparse.Namespace) -> int:
    """Compare two folders, sweeps or cells: what changed from A to B, by how much, how certain."""
    from analysis.statistics.comparisons import compare_results
    from analysis.statistics.runs import has_second_lengths
    from analysis.tables.comparison_table import comparison_table

    (a, name_a), (b, name_b) = _operands(options)
    a, b = load.unchanged_labels(a, b.cells), load.unchanged_labels(b, a.cells)
    if not set(a.cells) & set(b.cells):
        hint = "name a cell of each: SWEEP/CELL"
        raise ValueError(f"{name_a} and {name_b} have no cell of the same label; {hint}")
    frame = compare_results(a, b, options.by_length)
    differs = frame[frame["verdict"] != "equal"]
    shown = frame if frame["cell"].nunique() == 1 else differs
    seconds = has_second_lengths(a.evaluation)
    title = f"From A, {name_a}, to B, {name_b}"
    table = comparison_table(shown, title, options.by_length, seconds)
    more = "" if options.by_length else " --by-length: every length, with intervals."
    same = len(set(a.view["trial_id"]) & set(b.view["trial_id"]))
    equal = (
        f"{len(frame) - len(differs)} of {len(frame)} rows are equal: the same counts at every "
        f"length in every run.{more} Trials with the same id on both sides: {same}."
    )
    table, folder = replace(table, notes=(equal, *table.notes)), _out(options)
    print(render.render_text(table) if table.rows else f"{table.title}\n  {equal}")
    if folder:
        _show_written(files.write_files(folder, {"changes.csv": render.frame_csv(frame)}))
    return 0


def _operands(options: argparse.Namespace) -> list[tuple[Results, str]]:
    """Both sides of a comparison and what they are called: a sweep, or a cell of it, in two
    folders; or two of them in one.
    """
    texts, folders = (options.a, options.b), (options.results, options.results)
    if options.sweep:
        folders = tuple(find_existing(folder) for folder in texts)
        texts = (options.sweep, options.sweep)
    elif all(Path(text).is_dir() for text in texts):
        raise ValueError("name the sweep to compare in two folders: compare A B SWEEP")
    asked = [parse_address(Path(t).stem if t.endswith(".py") else t) for t in texts]
    if any(address.seed is not None for address in asked):
        raise ValueError("single trials are not compared: leave the seed out")
    cells = [address.cell for address in asked]
    if cells.count(None) == 1:
        raise ValueError("a cell and a sweep are not compared: name a cell of each, or of none")
    stores = zip(folders, [address.sweep for address in asked], strict=True)
    usual = load.usual_scale(*stores)
    sides, names, labels = list[Results](), list[str](), list[str]()
    for folder, address in zip(folders, asked, strict=True):
        scale = address.scale or options.scale or usual
        side = load.load_sweep(folder, address.sweep, scale, checkpoint=options.checkpoint)
        labels += [] if address.cell is None else [load.find_cell(side, address.cell)]
        name = "/".join([f"{address.sweep} [{scale}]", *labels[-1:]])
        names.append(f"{name} in {folder}" if options.sweep else name)
        sides.append(side)
    if labels:
        label = " → ".join(dict.fromkeys(labels))
        pairs = zip(sides, labels, strict=True)
        sides = [load.relabel(side, {cell: label}) for side, cell in pairs]
    return list(zip(sides, names, strict=True))


def show_search(options: argparse.Namespace) -> int:
    """What a hyper-parameter search tried: the best of every arm, all as CSV."""
    from analysis.tables.search_table import search_table

    name, scale = _view(options)
    tried = load.load_search(options.results, name, scale)
    newer = load.count_newer(options.results, name, scale)
    table = search_table(tried, f"Search {name} [{scale}]", newer)
    texts = render.render_files(table, "search")
    _write_table(table, texts, lambda _: (), f"{name}-{scale}", options)
    return 0


def fill_files(options: argparse.Namespace) -> int:
    """Fill in the marked figures, ranges and numbers of Markdown files."""
    from analysis.fill import fill

    for file in options.files:
        text = fill(file)
        changed = text != file.read_text(encoding="utf-8")
        files.write_text(file, text)
        print(f"{files.relative(file)}: {'changed' if changed else 'unchanged'}")
    return 0


def draw_attention(options: argparse.Namespace) -> int:
    """Draw what the heads of a trained model attend to, next to the construction."""
    from analysis.figures import style
    from analysis.figures.attention import plot_attention
    from pcore.cli.models import choose_device, open_model
    from pcore.diagnosis.attention import average_attention

    model, config = open_model(options.model, choose_device("cpu"), trust_code=options.trust_code)
    length = config.data.max_length if options.length is None else options.length
    attention = average_attention(model, config, length, options.examples)
    folder = _out(options) or options.model.parent
    stem = folder / f"{options.model.stem}-attention-{length}"
    _show_written(style.save(plot_attention(attention), stem))
    return 0


def _out(options: argparse.Namespace) -> Path | None:
    """The folder that --out names; it may not exist yet. Raises ValueError if it is a file."""
    out: Path | None = options.out
    if out is not None and out.exists() and not out.is_dir():
        raise ValueError(f"--out {out} is a file; it names a folder")
    return out


def _reports(results: str) -> Path:
    return files.check_place(find_reports(Folder(results)))


def _report_order(view: tuple[str, str]) -> tuple[int, str, int]:
    """The order of sweeps/tables.py, then all others by name; large scales first."""
    (sweep, scale), order = view, TABLES["paper"]
    index = order.index(sweep) if sweep in order else len(order)
    return index, sweep, -SCALES.index(scale)


def _view(options: argparse.Namespace) -> tuple[str, str]:
    """Sweep and scale that are asked for."""
    name = sweep_name(options.sweep)
    return name, options.scale or load.usual_scale((options.results, name))


def sweep_name(text: str) -> str:
    """The name of a sweep, from its name or its script."""
    return text.rpartition("/")[2].removesuffix(".py")


def _show_written(paths: Iterable[Path]) -> None:
    print("\n".join(["written:", *files.describe_files(paths)]))


COMMANDS = {
    "table": show_table,
    "report": make_report,
    "compare": compare,
    "search": show_search,
    "fill": fill_files,
    "attention": draw_attention,
}
