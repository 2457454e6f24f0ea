"""The files of a sweep: its tables in all formats and the rows behind them. Never written through a
link."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from analysis.load import Results
from analysis.statistics.comparisons import compare_arms
from analysis.statistics.runs import has_second_lengths
from analysis.tables import render
from analysis.tables.comparison_table import comparison_table
from analysis.tables.sweep_tables import ablation_table, choose_lengths
from analysis.tables.table import Table

# The columns of `runs.csv`: what the statistics of a sweep are computed from. Diverged runs have 0
# correct.
OF_RUNS = [
    *("cell", "trial_id", "seed", "data_seed", "status", "checkpoint", "checkpoint_step", "range"),
    *("length", "second_length", "num_correct", "num_examples", "exact_match", "test_set"),
]


def compare_cells(results: Results) -> Table | None:
    """Every cell against the first at the length near 2x; None where there is one cell, or one run
    of each: there would be differences without any p.
    """
    solve = choose_lengths(results).solve if len(results.evaluation) else None
    counts = results.evaluation.groupby("cell")["trial_id"].nunique()
    if solve is None or len(results.cells) < 2 or counts.max() < 2:
        return None
    tests = results.evaluation[results.evaluation["range"] == "test"]
    frame = compare_arms(tests, solve[0], results.cells)
    title = f"{results.name}: arms (B) against {results.cells[0]} (A)"
    return comparison_table(frame, title, has_seconds=has_second_lengths(results.evaluation))


def table_files(results: Results) -> tuple[Table, dict[str, str]]:
    """The table of a sweep; by name the files of all its tables and of the rows behind them."""
    table, compared = ablation_table(results), compare_cells(results)
    texts = render.render_files(table, "table")
    texts["runs.csv"] = render.frame_csv(results.all_evaluation[OF_RUNS])
    return table, texts | (render.render_files(compared, "comparisons") if compared else {})


def write_files(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write texts by file name into a folder, which is made if it is missing."""
    check_place(folder).mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_text(folder / name, text)
    return [folder / name for name in texts]


def check_place(path: Path) -> Path:
    """Return the path; raise ValueError if it is a link."""
    if path.is_symlink():
        raise ValueError(f"{path} is a link, which is not followed; remove it")
    return path


def write_text(path: Path, text: str) -> None:
    """Write a text file, as UTF-8 and with the same line ends everywhere."""
    check_place(path).write_text(text, encoding="utf-8", newline="\n")


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
