"""Writing the report, and the files of each of its sections: tables, numbers and figures.

Figures whose rows and code have not changed since they were drawn are left as they are, and so is a
report of which nothing has changed (`analysis.report.stamps`).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from analysis import trace
from analysis.load import Results, load_sweep
from analysis.report.model import SavedFigure, Section
from analysis.report.stamps import digest, hash_bytes, read_note, stamp_views, write_note
from analysis.statistics.comparisons import compare_with_first
from analysis.tables import render
from analysis.tables import sweep_tables as tables
from analysis.tables.comparison_table import arms_table
from analysis.tables.files import check_place, write_text
from sweeps.engine.store.store import Store

NOTE = "figures.json"  # in the folder of a section; that of report.html is report.html.json


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What writing a report did."""

    verdicts: str  # how many of each
    changed: bool  # whether there was anything to write


def write_report(
    store: Store, views: Sequence[tuple[str, str]], checkpoint: str, out: Path
) -> Written:
    """Write the report on these views (sweep, scale), in their order, with the files beside it.

    Verdicts are on all that the store holds. Raises ValueError if one of the views has no rows at
    this checkpoint policy.
    """
    from analysis.findings import is_judged, judge, load_findings, verdict_table

    shown = [(*view, checkpoint) for view in views]
    judged = [(*v, "last") for v in store.view_names() if is_judged(*v) and v not in views]
    stamps = stamp_views(store, [*shown, *judged])
    made_of, note = digest(list(stamps.items()), shown), out.with_name(f"{out.name}.json")
    if kept := read_note(note, made_of):
        return Written(verdicts=kept.about, changed=False)
    from analysis.report.page import show_report

    loaded = {view: load_sweep(store, *view) for view in stamps}
    sections = [
        write_section(loaded[view], out.parent / f"{view[0]}-{view[1]}", stamps[view])
        for view in shown
    ]
    verdicts = judge(load_findings(), loaded.values())
    texts = _render(verdict_table(verdicts), "verdicts")
    texts[out.name] = show_report(sections, verdicts, out)
    for name, text in texts.items():
        write_text(out.parent / name, text)
    hashes = {file: text for section in sections for file, text in section.files.items()}
    counts = Counter(row.verdict for row in verdicts)
    words = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    write_note(note, made_of, hashes | _hash_texts(out.parent, texts), words)
    return Written(verdicts=words, changed=True)


def write_section(results: Results, folder: Path, made_of: str | None = None) -> Section:
    """Write every table and figure of a sweep into a folder; what the report shows of it.

    made_of: the stamp of these results.
    """
    section, texts = make_tables(results, folder)
    write_tables(folder, texts)
    return draw_section(section, folder, made_of)


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
    files = _hash_texts(folder, texts)
    section = Section(results=results, table=table, comparisons=compared, figures=(), files=files)
    return section, texts


def write_tables(folder: Path, texts: Mapping[str, str]) -> None:
    """Write the tables of a sweep, by file name."""
    check_place(folder).mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_text(folder / name, text)


def draw_section(section: Section, folder: Path, made_of: str | None = None) -> Section:
    """Draw every figure of a section into a folder; the section with its figures.

    made_of: the stamp of its rows and code. Figures of the same stamp are not drawn again.
    """
    note, figures = folder / NOTE, tuple[SavedFigure, ...]()
    kept = read_note(note, made_of) if made_of else None
    if kept is None:
        figures = tuple(_draw_figures(section.results, folder))
    else:
        for name, caption in kept.about:
            contents = {file: data for file, data in kept.files.items() if file.stem == name}
            figures += (_describe_figure(name, caption, contents),)
    hashes = {file: text for figure in figures for file, text in figure.files.items()}
    if made_of and kept is None:
        write_note(note, made_of, hashes, [(figure.name, figure.caption) for figure in figures])
    return replace(section, figures=figures, files=section.files | hashes)


def _draw_figures(results: Results, folder: Path) -> Iterator[SavedFigure]:
    """Draw and write every figure, one at a time."""
    from analysis.figures import style
    from analysis.figures.choose import draw_figures

    for drawn in draw_figures(results):
        files = style.render(drawn.figure)
        contents = {folder / f"{drawn.name}.{kind}": data for kind, data in files.items()}
        for file, data in contents.items():
            check_place(file).write_bytes(data)
        yield _describe_figure(drawn.name, drawn.caption, contents)


def _describe_figure(name: str, caption: str, contents: Mapping[Path, bytes]) -> SavedFigure:
    (svg,) = (data.decode() for file, data in contents.items() if file.suffix == ".svg")
    files = {file: hash_bytes(data) for file, data in contents.items()}
    return SavedFigure(name=name, caption=caption, svg=svg, files=files)


def _hash_texts(folder: Path, texts: Mapping[str, str]) -> dict[Path, str]:
    return {folder / name: hash_bytes(text.encode()) for name, text in texts.items()}


def _render(table: tables.Table, name: str) -> dict[str, str]:
    return {f"{name}.{kind}": text for kind, text in render.render_files(table).items()}
