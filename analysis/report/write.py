"""The files of one sweep at one scale: tables, numbers and figures in a folder."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from analysis import trace
from analysis.load import Results
from analysis.report.model import SavedFigure, Section
from analysis.statistics.comparisons import compare_with_first
from analysis.tables import render
from analysis.tables import sweep_tables as tables
from analysis.tables.comparison_table import arms_table
from analysis.tables.files import check_place, write_text


def write_section(results: Results, folder: Path) -> Section:
    """Write every table and figure of a sweep into a folder; what the report shows of it."""
    section, texts = make_tables(results, folder)
    write_tables(folder, texts)
    return draw_section(section, folder)


def make_tables(results: Results, folder: Path) -> tuple[Section, dict[str, str]]:
    """What the report shows of a sweep, without figures; and the tables to be written into a
    folder, by file name.
    """
    table = compared = None
    texts = dict[str, str]()
    if len(results.evaluation):
        table = tables.ablation_table(results)
        texts = _render(table, "table") | {
            "runs.csv": render.frame_csv(trace.run_table(results)),
        }
        length = tables.choose_lengths(results).solve
        if length is not None and len(results.cells) > 1:
            frame = compare_with_first(results, length)
            compared = arms_table(frame, results.name)
            texts |= _render(compared, "comparisons")
    files = tuple(folder / name for name in texts)
    section = Section(results=results, table=table, comparisons=compared, figures=(), files=files)
    return section, texts


def write_tables(folder: Path, texts: Mapping[str, str]) -> None:
    """Write the tables of a sweep, by file name."""
    check_place(folder).mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_text(folder / name, text)


def draw_section(section: Section, folder: Path) -> Section:
    """Draw every figure of a section into a folder; the section with its figures."""
    from analysis.figures import style
    from analysis.figures.choose import draw_figures

    saved = []
    for drawn in draw_figures(section.results):
        paths = tuple(style.save(drawn.figure, folder / drawn.name))
        svg = paths[-1].read_text(encoding="utf-8")
        saved.append(SavedFigure(name=drawn.name, caption=drawn.caption, svg=svg, files=paths))
    files = (*section.files, *(path for figure in saved for path in figure.files))
    return replace(section, figures=tuple(saved), files=files)


def _render(table: tables.Table, name: str) -> dict[str, str]:
    return {f"{name}.{kind}": text for kind, text in render.render_files(table).items()}
