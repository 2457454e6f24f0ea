"""The files of one sweep at one scale: tables, numbers and figures in a folder."""

from pathlib import Path

import pandas as pd

from analysis import render, tables, trace
from analysis.load import Results
from analysis.report_model import Picture, Section


def write_section(
    results: Results,
    folder: Path,
    checkpoint: str = "last",
    comparisons: pd.DataFrame | None = None,
) -> Section:
    """Write every table and figure of a sweep into a folder; what the report shows of it.

    Raises ValueError if the checkpoint policy was not evaluated.
    """
    from analysis import pictures, style  # imports matplotlib: only what draws pays for it

    folder.mkdir(parents=True, exist_ok=True)
    table, texts = None, dict[str, str]()
    if len(results.evaluation):
        table = tables.ablation_table(results, checkpoint)
        texts = {
            "table.md": render.render_markdown(table),
            "table.tex": render.render_latex(table),
            "table.csv": render.render_csv(table),
            "runs.csv": render.frame_csv(trace.run_table(results)),
            "lengths.csv": render.frame_csv(tables.length_table(results)),
            "failures.csv": render.frame_csv(tables.failure_table(results, checkpoint)),
        }
    if comparisons is not None and len(comparisons):
        texts["comparisons.csv"] = render.frame_csv(comparisons)
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
        comparisons=comparisons,
        pictures=tuple(drawn),
        files=tuple(written + [path for picture in drawn for path in picture.files]),
    )
