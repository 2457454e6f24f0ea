"""Tables and figures of a sweep from the store.

python -m analysis table depth_ablation     print the table; write it and the figures
python -m analysis curves depth_ablation    exact match against length, in the terminal
python -m analysis list                     what the store holds
"""

import argparse
import sys
from pathlib import Path

from analysis import load, render, tables
from analysis.load import Results


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
    results = _load(options)
    if not _has_runs(results):
        return 0
    table = tables.ablation_table(results, options.checkpoint)
    print(render.render_text(table))
    remote = "://" in options.results  # what is drawn from an object store is written here
    place = Path("reports") if remote else Path(options.results) / "reports"
    folder = options.out or place / f"{results.sweep}-{results.scale}"
    paths = write_report(results, table, folder, options.checkpoint)
    print("written:")
    for path in paths:
        print(f"  {_relative(path)}")
    return 0


def write_report(
    results: Results, table: tables.Table, folder: Path, checkpoint: str
) -> list[Path]:
    """Write tables and figures into a folder and return the files."""
    from analysis import figures, style  # imports matplotlib: only what draws pays for it

    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "table.md": render.render_markdown(table),
        "table.tex": render.render_latex(table),
        "table.csv": render.render_csv(table),
        "lengths.csv": render.frame_csv(tables.length_table(results)),
        "failures.csv": render.frame_csv(tables.failure_table(results, checkpoint)),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    paths = [folder / name for name in texts]
    paths += style.save(figures.plot_lengths(results, checkpoint), folder / "lengths")
    return paths + style.save(figures.plot_losses(results), folder / "losses")


def show_curves(options: argparse.Namespace) -> int:
    """Draw the curves in the terminal."""
    from analysis.curves import draw_curves

    results = _load(options)
    if _has_runs(results):
        print(draw_curves(results, options.checkpoint))
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


COMMANDS = {"table": show_table, "curves": show_curves, "list": show_views}


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m analysis",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="{table,curves,list}")
    for name, function in COMMANDS.items():
        command = commands.add_parser(name, help=(function.__doc__ or "").rstrip("."))
        command.add_argument("--results", default="results", help="results folder or s3:// address")
        if name == "list":
            continue
        command.add_argument("sweep", metavar="SWEEP", help="name or script of the sweep")
        command.add_argument("--scale", default="laptop", help="smoke, laptop or paper")
        command.add_argument("--checkpoint", default="last", help="last, best or oracle")
        if name == "table":
            command.add_argument("--out", type=Path, metavar="DIR", help="where files are written")
    return parser.parse_args(arguments)


def _load(options: argparse.Namespace) -> Results:
    sweep = options.sweep.rpartition("/")[2].removesuffix(".py")
    return load.load_sweep(options.results, sweep, options.scale)


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
