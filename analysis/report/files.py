"""The files of a sweep: its tables in all formats, the rows behind them, its figures."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from analysis.load import Results, run_table
from analysis.statistics.comparisons import compare_arms
from analysis.tables import render
from analysis.tables.comparison_table import comparison_table
from analysis.tables.files import check_place, write_text
from analysis.tables.sweep_tables import ablation_table, choose_lengths
from analysis.tables.table import Table


def compare_cells(results: Results) -> Table | None:
    """Every cell against the first at the length near 2x; None where there is one cell, or one run
    of each: there would be differences without any p.
    """
    length = choose_lengths(results).solve if len(results.evaluation) else None
    counts = results.evaluation.groupby("cell")["trial_id"].nunique()
    if length is None or len(results.cells) < 2 or counts.max() < 2:
        return None
    tests = results.evaluation[results.evaluation["range"] == "test"]
    frame = compare_arms(tests, length, results.cells)
    return comparison_table(frame, f"{results.name}: arms (B) against {results.cells[0]} (A)")


def table_files(results: Results) -> tuple[Table, dict[str, str]]:
    """The table of a sweep; by name the files of all its tables and of the rows behind them."""
    table, compared = ablation_table(results), compare_cells(results)
    texts = render_files(table, "table")
    texts["runs.csv"] = render.frame_csv(run_table(results))
    return table, texts | (render_files(compared, "comparisons") if compared else {})


def render_files(table: Table, stem: str) -> dict[str, str]:
    """A table in all formats, by file name."""
    return {f"{stem}.{kind}": text for kind, text in render.render_files(table).items()}


def write_files(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write texts by file name into a folder, which is made if it is missing."""
    check_place(folder).mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_text(folder / name, text)
    return [folder / name for name in texts]


def draw_files(results: Results, folder: Path) -> Iterator[Path]:
    """Draw and write every figure of a sweep, one at a time."""
    from analysis.figures import style
    from analysis.figures.choose import draw_figures

    for drawn in draw_figures(results):
        yield from style.save(drawn.figure, folder / drawn.name)


def describe_files(paths: Iterable[Path]) -> Iterator[str]:
    """A line per table or figure: `folder/lengths.png, .pdf, .svg`."""
    kinds = dict[Path, list[Path]]()
    for path in paths:
        kinds.setdefault(path.with_suffix(""), []).append(path)
    for first, *others in kinds.values():
        yield ", ".join([f"  {relative(first)}", *(path.suffix for path in others)])


def relative(path: Path) -> Path:
    """The path from here, if it is below."""
    path, here = path.absolute(), Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
