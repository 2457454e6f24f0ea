"""What each command of `python -m analysis` does: read, compute, print, write."""

import argparse
from collections import Counter
from pathlib import Path

import pandas as pd

from analysis import load
from analysis.claims.published import CLAIMS
from analysis.claims.verdicts import judge, verdict_table
from analysis.load import Results
from analysis.tables import render
from analysis.tables import sweep_tables as tables
from analysis.tables.comparison_table import comparison_table
from sweeps.commands.tables import TABLES
from sweeps.engine.store.store import Store

SCALES = ("smoke", "laptop", "paper")


def show_table(options: argparse.Namespace) -> int:
    """Print the table and write every rendering and figure."""
    from analysis.report.write import write_section

    results = _load(options)
    if not _has_runs(results):
        return 0
    folder = options.out or _reports(options.results) / f"{results.sweep}-{results.scale}"
    section = write_section(results, folder, options.checkpoint, _compare_arms(results, options))
    assert section.table is not None
    print(render.render_text(section.table))
    print("written:")
    for path in section.files:
        print(f"  {_relative(path)}")
    return 0


def make_report(options: argparse.Namespace) -> int:
    """Write verdicts, tables and figures of all sweeps in the store as one HTML file."""
    from analysis.report.page import build_report
    from analysis.report.write import write_section

    views = [
        view
        for view in load.list_views(options.results)
        if options.scale in (None, view.scale) and view.sweep in (options.sweeps or [view.sweep])
    ]
    if not views:
        raise ValueError(f"no sweep to report on in {options.results}")
    views.sort(key=lambda view: (_place(view.sweep), -SCALES.index(view.scale)))
    out = options.out or _reports(options.results) / "report.html"
    sections = []
    for view in views:
        results = load.load_sweep(options.results, view.sweep, view.scale)
        folder = out.parent / f"{view.sweep}-{view.scale}"
        compared = _compare_arms(results, options)
        sections.append(write_section(results, folder, options.checkpoint, compared))
    verdicts = judge(CLAIMS, options.results)
    table = verdict_table(verdicts)
    for ending, text in render.render_files(table).items():
        file = out.parent / f"verdicts.{ending}"
        file.write_text(text, encoding="utf-8", newline="\n")
    words = Counter(row.verdict for row in verdicts)
    print(", ".join(f"{count} {word}" for word, count in words.items()))
    print(f"written: {_relative(build_report(sections, verdicts, out))}")
    return 0


def compare(options: argparse.Namespace) -> int:
    """Two result sets, cell by cell: what changed from A to B, by how much, how surely."""
    from analysis.statistics.comparisons import compare_results

    found = [load.load_sweep(place, *options.view) for place in (options.a, options.b)]
    frame = compare_results(*found, checkpoint=options.checkpoint)
    print(render.render_text(comparison_table(frame, *options.view)))
    if options.out:
        options.out.write_text(render.frame_csv(frame), encoding="utf-8", newline="\n")
        print(f"written: {_relative(options.out)}")
    return 0


def show_curves(options: argparse.Namespace) -> int:
    """Draw the curves in the terminal."""
    from analysis.tables.curves import draw_curves

    results = _load(options)
    if _has_runs(results):
        print(draw_curves(results, options.checkpoint))
    return 0


def show_trace(options: argparse.Namespace) -> int:
    """The runs behind the exact match of a cell at a length: counts, shards, commits."""
    from analysis.trace import describe_trace, trace

    results = _load(options)
    store = Store(options.results)
    found = trace(results, store, options.cell, options.length, options.checkpoint)
    print(describe_trace(found, results, options.results))
    return 0


def show_selection(options: argparse.Namespace) -> int:
    """Which candidate coupling the near range selects for each task."""
    from analysis.tables.selection import selection_table

    print(render.render_text(selection_table(_load(options), options.checkpoint)))
    return 0


def fill_files(options: argparse.Namespace) -> int:
    """Fill in the marked tables and figures of Markdown files."""
    from analysis.fill import fill

    for file in options.files:
        text = fill(file)
        changed = text != file.read_text(encoding="utf-8")
        file.write_text(text, encoding="utf-8", newline="\n")
        print(f"{_relative(file)}: {'changed' if changed else 'as it was'}")
    return 0


def draw_attention(options: argparse.Namespace) -> int:
    """Draw what the heads of a trained model look at, next to the construction."""
    from analysis.figures import style
    from analysis.figures.attention import plot_attention
    from pcore.diagnosis.attention import average_attention
    from pcore.model.checkpoint import load_model

    model, config = load_model(options.model)
    length = options.length or config.data.max_length
    found = average_attention(model, config, length, options.examples)
    stem = options.out or options.model.with_name(f"{options.model.stem}-attention-{length}")
    print("written:")
    for path in style.save(plot_attention(found), stem):
        print(f"  {_relative(path)}")
    return 0


def show_views(options: argparse.Namespace) -> int:
    """One line per sweep and scale in the store."""
    views = load.list_views(options.results)
    if not views:
        print(f"no sweeps in {options.results}")
        return 0
    width = max(len(view.sweep) for view in views)
    for view in views:
        cells, done = f"{view.num_cells} cells", f"{view.num_counted}/{view.num_trials} trials"
        print(f"{view.sweep:<{width}}  {view.scale:<7}  {cells:>9}  {done:>14}  {view.title}")
    return 0


def _reports(results: str) -> Path:
    """Where what is drawn of a store is written; of an object store, here."""
    return Path("reports") if "://" in results else Path(results) / "reports"


def _place(sweep: str) -> tuple[int, str]:
    """Where a sweep stands in the report: as in sweeps/commands/tables.py, own ones behind, by
    name.
    """
    order = TABLES["paper"]
    return (order.index(sweep) if sweep in order else len(order), sweep)


def _compare_arms(results: Results, options: argparse.Namespace) -> pd.DataFrame | None:
    """Every cell against the first one at the tested length near twice the trained one."""
    from analysis.statistics.comparisons import compare_arms

    if results.evaluation.empty or len(results.cells) < 2:
        return None
    evaluation = load.select_checkpoint(results, options.checkpoint)
    shown = tables.choose_lengths(results, evaluation)
    if shown.solve is None:
        return None
    test = evaluation[evaluation["range"] == "test"]
    return compare_arms(test, shown.solve, cells=results.cells)


def _load(options: argparse.Namespace) -> Results:
    return load.load_sweep(options.results, *options.view)


def _has_runs(results: Results) -> bool:
    """False, after saying so, if there is nothing to show yet."""
    counts = results.trials.drop_duplicates("trial_id")["status"].value_counts()
    if len(results.evaluation):
        return True
    states = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    finished = "no trial has finished" if not counts.get("ok") else "no trial was evaluated"
    print(f"{results.sweep} ({results.scale}): {finished} yet ({states}); nothing to tabulate")
    return False


def _relative(path: Path) -> Path:
    path, here = path.absolute(), Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


COMMANDS = {
    "table": show_table,
    "report": make_report,
    "compare": compare,
    "curves": show_curves,
    "trace": show_trace,
    "select": show_selection,
    "fill": fill_files,
    "attention": draw_attention,
    "list": show_views,
}
