"""The files of one sweep at one scale: tables, numbers and figures in a folder."""

from pathlib import Path

import pandas as pd

from analysis import trace
from analysis.load import Results
from analysis.report.model import Picture, Section
from analysis.tables import render
from analysis.tables import sweep_tables as tables
from analysis.tables.comparison_table import arms_table


def write_section(
    results: Results,
    folder: Path,
    checkpoint: str = "last",
    comparisons: pd.DataFrame | None = None,
) -> Section:
    """Write every table and figure of a sweep into a folder; what the report shows of it.

    Raises ValueError if the checkpoint policy was not evaluated.
    """
    from analysis.figures import choose as pictures
    from analysis.figures import style

    folder.mkdir(parents=True, exist_ok=True)
    table, texts = None, dict[str, str]()
    if len(results.evaluation):
        table = tables.ablation_table(results, checkpoint)
        texts = _render(table, "table") | {
            "runs.csv": render.frame_csv(trace.run_table(results)),
            "lengths.csv": render.frame_csv(tables.length_table(results)),
            "failures.csv": render.frame_csv(tables.failure_table(results, checkpoint)),
        }
    compared = None
    if comparisons is not None and len(comparisons):
        compared = arms_table(comparisons, f"{results.title} ({results.sweep}, {results.scale})")
        texts |= _render(compared, "comparisons")
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    drawn: list[Picture] = []
    for drawing in pictures.draw_pictures(results, checkpoint):
        paths = style.save(drawing.figure, folder / drawing.name)
        svg = paths[-1].read_text(encoding="utf-8")
        drawn.append(
            Picture(name=drawing.name, caption=drawing.caption, svg=svg, files=tuple(paths))
        )
    written = [folder / name for name in texts]
    return Section(
        results=results,
        checkpoint=checkpoint,
        table=table,
        comparisons=compared,
        pictures=tuple(drawn),
        files=tuple(written + [path for picture in drawn for path in picture.files]),
    )


def _render(table: tables.Table, name: str) -> dict[str, str]:
    return {f"{name}.{ending}": text for ending, text in render.render_files(table).items()}
