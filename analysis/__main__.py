"""Tables and figures of a sweep from the store.

python -m analysis table depth_ablation     print the table; write it and the figures
python -m analysis report                   all of it in one HTML file, verdicts first
python -m analysis compare A B depth_ablation  what changed between two results folders
python -m analysis curves depth_ablation    exact match against length, in the terminal
python -m analysis attention last.pt        what the heads of a trained model look at, drawn
python -m analysis list                     what the store holds
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

import pandas as pd

from analysis import load, render, tables
from analysis.claims import CLAIMS
from analysis.comparison_table import comparison_table
from analysis.load import Results
from analysis.verdicts import judge, verdict_table
from sweeps.tables import TABLES

SCALES = ("smoke", "laptop", "paper")


def main(arguments: list[str] | None = None) -> int:
    """Run one command: 0, or 2 and one sentence on stderr if what was asked for does not exist."""
    options = _parse(arguments)
    try:
        return COMMANDS[options.command](options)
    except (ValueError, OSError) as error:
        print(f"analysis: {error}", file=sys.stderr)
        return 2


def show_table(options: argparse.Namespace) -> int:
    """Print the table and write every rendering and figure."""
    from analysis.files import write_section

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
    from analysis.files import write_section
    from analysis.report import build_report

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
    names = {"md": render.render_markdown, "tex": render.render_latex, "csv": render.render_csv}
    for ending, function in names.items():
        file = out.parent / f"verdicts.{ending}"
        file.write_text(function(table), encoding="utf-8", newline="\n")
    words = Counter(row.verdict for row in verdicts)
    print(", ".join(f"{count} {word}" for word, count in words.items()))
    print(f"written: {_relative(build_report(sections, verdicts, out))}")
    return 0


def compare(options: argparse.Namespace) -> int:
    """Two result sets, cell by cell: what changed from A to B, by how much, how surely."""
    from analysis.comparisons import compare_results

    found = [load.load_sweep(place, *options.view) for place in (options.a, options.b)]
    frame = compare_results(*found, checkpoint=options.checkpoint)
    print(render.render_text(comparison_table(frame, *options.view)))
    if options.out:
        options.out.write_text(render.frame_csv(frame), encoding="utf-8", newline="\n")
        print(f"written: {_relative(options.out)}")
    return 0


def show_curves(options: argparse.Namespace) -> int:
    """Draw the curves in the terminal."""
    from analysis.curves import draw_curves

    results = _load(options)
    if _has_runs(results):
        print(draw_curves(results, options.checkpoint))
    return 0


def draw_attention(options: argparse.Namespace) -> int:
    """Draw what the heads of a trained model look at, next to the construction."""
    from analysis import style
    from analysis.attention_figures import plot_attention
    from pcore.attention import average_attention
    from pcore.checkpoint import load_model

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


COMMANDS = {
    "table": show_table,
    "report": make_report,
    "compare": compare,
    "curves": show_curves,
    "attention": draw_attention,
    "list": show_views,
}


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m analysis",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(
        dest="command", required=True, metavar=f"{{{','.join(COMMANDS)}}}"
    )
    for name, function in COMMANDS.items():
        command = commands.add_parser(name, help=(function.__doc__ or "").rstrip("."))
        if name == "attention":
            command.add_argument("model", metavar="CHECKPOINT", type=Path, help="a .pt file")
            command.add_argument("--length", type=int, help="default: the longest trained one")
            command.add_argument("--examples", type=int, default=1000, help="default: 1000")
            command.add_argument("--out", type=Path, help="files to write, without their ending")
            continue
        if name == "compare":
            command.add_argument("a", help="results folder or s3:// address")
            command.add_argument("b", help="the other one")
        else:
            place = "results folder or s3:// address"
            command.add_argument("--results", default="results", help=place)
        if name == "list":
            continue
        if name == "report":
            command.add_argument("sweeps", nargs="*", metavar="SWEEP", help="default: all")
        else:
            command.add_argument("sweep", metavar="SWEEP", help="name or script of the sweep")
        default = None if name == "report" else "laptop"
        command.add_argument(
            "--scale", choices=SCALES, default=default, help=f"default: {default or 'all'}"
        )
        command.add_argument("--checkpoint", default="last", help="last, best or oracle")
        if name != "curves":
            command.add_argument("--out", type=Path, help="where to write")
    options = parser.parse_args(arguments)
    if "sweep" in options:
        options.view = (_stem(options.sweep), options.scale)
    return options


def _stem(sweep: str) -> str:
    """The name of a sweep or of its script."""
    return sweep.rpartition("/")[2].removesuffix(".py")


def _reports(results: str) -> Path:
    """Where what is drawn of a store is written; of an object store, here."""
    return Path("reports") if "://" in results else Path(results) / "reports"


def _place(sweep: str) -> tuple[int, str]:
    """Where a sweep stands in the report: as in sweeps/tables.py, own ones behind, by name."""
    order = TABLES["paper"]
    return (order.index(sweep) if sweep in order else len(order), sweep)


def _compare_arms(results: Results, options: argparse.Namespace) -> pd.DataFrame | None:
    """Every cell against the first one at the tested length near twice the trained one."""
    from analysis.comparisons import compare_arms

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


if __name__ == "__main__":
    sys.exit(main())
