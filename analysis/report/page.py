"""The page: one HTML file with all results of a store, which opens from disk and needs no network.

What holds comes first, then every cell (filters, overlaid curves, trials), then all findings with
their rules, then a section per sweep. Texts of rows are escaped by jinja2 or set as text by the
script, and only the scripts of this folder may run (a policy with their hashes). Same rows, same
bytes.
"""

import base64
import hashlib
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from analysis.figures import style
from analysis.figures.captions import factor_text
from analysis.figures.choose import choose_figures
from analysis.findings import VerdictRow, judge, load_findings
from analysis.load import COUNTED, Results, cell_configs, differences, load_sweep
from analysis.report.cells import LENGTHS, completeness, describe_cells, pick_samples
from analysis.settings import settings_table
from analysis.tables.files import compare_cells
from analysis.tables.sweep_tables import ablation_table
from analysis.tables.table import DASH, Table
from pcore.cli.text import format_seconds, plural
from sweeps.engine.store.store import Store

FOLDER = Path(__file__).parent
SCRIPTS = ("uplot/uPlot.iife.min.js", "chart.js", "page.js")
SHEETS = ("uplot/uPlot.min.css", "page.css")
PAGES = Environment(
    loader=FileSystemLoader(FOLDER),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TITLE = "Length generalization of Transformers: ablations"
FILTERS = ("sweep", "scale", "task", "encoding", "layers")
PRINTED = ("train", "L95", "exact_match")  # of a cell, in the table alone
MOST_SHOWN = 4  # findings of a kind that are not folded
MOST_LINES = 7  # of the headline chart
KINDS = {  # what findings of a kind are called; the verdicts that are of it, each with its sign
    "holds": {"reproduced": "✓", "exceeded": "✓", "holds": "✓"},
    "does not hold": {"not reproduced": "✗", "does not hold": "✗", "reversed": "✗"},
    "not told apart": {"not separated": "≈", "saturated": "≈"},
    "undecided": {"not enough seeds": "…", "undecided": "?"},
}
CERTAINTIES = {
    "paper": "stated in the paper",
    "abstract": "stated in its abstract",
    "secondary": "read from a figure or retold",
    "ours": "our own",
}
NUMBER = re.compile(r"[≥≤<>+−-]?\d.*")
SVG_ID = re.compile(r'(\sid="|href="#|url\(#)([^")]+)')
SVG_HEAD = re.compile(r"^.*?(?=<svg)|<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", re.S)
SVG_SIZE = re.compile(r'\s(width|height|version|xmlns(:\w+)?)="[^"]*"')
SVG_WASTE = re.compile(r' +(?=\n)|(?<=\n) +|(?<=<g) id="[^"]*"| transform="rotate\(-0 [^"]*"')
SVG_PLACE = re.compile(r'(?<= )(d|x|y|transform)="[^"]*"')
SVG_DIGITS = re.compile(r"(\d\.\d)\d+")  # of a point: a tenth is finer than a pixel
SVG_LINES = re.compile(r'(?<= d=")[MLz\d\s.-]*(?=")')  # of a path without curves


def make_page(
    store: Store, views: Sequence[tuple[str, str]], checkpoint: str, name: str
) -> tuple[str, list[str]]:
    """The page of these views (sweep, scale), in their order; and a sentence for each that has no
    rows at this checkpoint policy. name: of the store, as commands give it. Raises ValueError if
    none has any.
    """
    loaded, left_out = list[Results](), list[str]()
    for view in views:
        try:
            loaded.append(load_sweep(store, *view, checkpoint))
        except ValueError as error:
            left_out.append(f"{view[0]} ({view[1]}): {error}")
    if not loaded:
        raise ValueError(left_out[0])
    sections = [_make_section(results) for results in loaded]
    cells = [cell for section in sections for cell in section["cells"]]
    findings = _judge(loaded, {results.sweep for results in loaded})
    scripts = [(FOLDER / name).read_text(encoding="utf-8") for name in SCRIPTS]
    plain = [{k: v for k, v in cell.items() if k not in PRINTED} for cell in cells]
    data = json.dumps({"results": name, "cells": plain}, allow_nan=False, separators=(",", ":"))
    page = PAGES.get_template("page.html").render(
        plural=plural,
        numeric=_numeric_columns,
        code=_code,
        KINDS=KINDS,
        CERTAINTIES=CERTAINTIES,
        MOST_SHOWN=MOST_SHOWN,
        title=TITLE,
        policy=" ".join(map(_hash, scripts)),
        style=Markup(_palette() + "\n".join((FOLDER / n).read_text("utf-8") for n in SHEETS)),
        scripts=[Markup(text) for text in scripts],
        data=Markup(data.replace("<", "\\u003c")),  # no tag begins inside a string
        basis=_say_basis(loaded),
        results=name,
        headline=_choose_headline(cells),
        findings=findings,
        sections=sections,
        cells=cells,
        filters={name: _count_values(cells, name) for name in FILTERS},
        lengths=LENGTHS,
    )
    return f"{page}\n", left_out


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _palette() -> str:
    """The colours of the figures, for the style sheet."""
    names = ("blue", "red", "green", "pink", "orange", "black", "sky", "olive")
    greys = {"grey": style.GREY, "light": style.LIGHT, "faint": style.FAINT}
    colors = dict(zip(names, style.COLORS, strict=True)) | greys | {"fainter": style.FAINTER}
    return ":root{" + "".join(f"--{name}:{value};" for name, value in colors.items()) + "}\n"


def _numeric_columns(table: Table) -> list[bool]:
    """Which columns hold numbers alone, the first aside."""
    columns = [[row[i].text for row in table.rows] for i in range(len(table.header))]
    shown = [[text for text in column if text not in ("", DASH)] for column in columns]
    return [i > 0 and bool(s) and all(map(NUMBER.fullmatch, s)) for i, s in enumerate(shown)]


def _code(text: str) -> Markup:
    """What stands between backticks as code."""
    parts = " ".join(text.split()).split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(p) if i % 2 else p for i, p in enumerate(parts)
    )


def _say_basis(loaded: Iterable[Results]) -> str:
    """How many trials the page rests on, and of which code."""
    trials = pd.concat([results.trials.assign(scale=results.scale) for results in loaded])
    scales = trials.groupby("scale")["trial_id"].nunique().items()
    parts = [completeness(trials), *(f"{count} at {scale} scale" for scale, count in scales)]
    codes = sorted({str(code)[:8] for code in trials["code_hash"].dropna()})
    versions = f" pcore {', '.join(codes)}." if codes else ""
    return f"{', '.join(parts).capitalize()}.{versions}"


def _count_values(cells: Iterable[Mapping[str, Any]], name: str) -> dict[str, int]:
    counts = Counter(str(cell[name]) for cell in cells if cell[name] is not None)
    order = list(counts) if name == "sweep" else sorted(counts, key=lambda v: (len(v), v))
    return {value: counts[value] for value in order}


def _choose_headline(cells: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The trained cell that reaches furthest beyond its trained lengths (smoke scale only if there
    is no other), and beside it, of every other encoding trained on the same lengths of the same
    task, the cell that does. None if no cell reaches any length.
    """
    places = [i for i, cell in enumerate(cells) if cell["reach"] and not cell["constructed"]]
    places = [i for i in places if cells[i]["scale"] != "smoke"] or places
    if not places:
        return None
    best = max(places, key=lambda i: (cells[i]["reach"], cells[i]["n"], -i))
    lead, furthest = cells[best], dict[str, int]()
    for i in sorted(places, key=lambda i: (-cells[i]["reach"], i)):
        if all(cells[i][name] == lead[name] for name in ("task", "scale", "trained")):
            furthest.setdefault(cells[i]["encoding"], i)
    furthest[lead["encoding"]] = best
    shown = sorted(list(furthest.values())[:MOST_LINES])
    return {"lead": best, "cells": shown, "says": _say_headline(lead), "cell": lead}


def _say_headline(cell: Mapping[str, Any]) -> str:
    """How far the median goes, and what the worst run does there."""
    low, high = cell["trained"]
    is_said = cell["task"].lower() in cell["title"].lower()
    name = cell["cell"] if is_said else f"{cell['cell']} ({cell['task']})"
    tested = ", the longest tested" if cell["is_longest"] else ""
    factors, tokens = factor_text(cell["reach"]), cell["tokens"]
    if tokens is not None:
        factors += f" in length, {factor_text(tokens)} in tokens of the longest training row"
    runs = f"worst of n = {cell['n']} runs at that length" if cell["n"] > 1 else "n = 1 run"
    return (
        f"{name}: median exact match above 95 % up to length {cell['l95']:,}{tested}, trained on "
        f"lengths {low}–{high} ({factors}); {runs}: {cell['worst']} %."
    )


def _judge(loaded: Iterable[Results], sweeps: set[str]) -> dict[str, dict[str, list[VerdictRow]]]:
    """The findings about sweeps that were run: published and our own, never counted together, each
    by what came out.
    """
    rows = judge((finding for finding in load_findings() if finding.sweep in sweeps), loaded)
    kinds = {
        name: {
            kind: [row for row in rows if row.finding.is_ours == is_ours and row.verdict in words]
            for kind, words in KINDS.items()
        }
        for name, is_ours in (("Findings of the papers", False), ("Our own findings", True))
    }
    return {name: group for name, group in kinds.items() if any(group.values())}


def _make_section(results: Results) -> dict[str, Any]:
    """Everything the page shows of a sweep at a scale."""
    name = re.sub(r"[^A-Za-z0-9_-]", "-", f"{results.sweep}-{results.scale}")
    table = ablation_table(results)
    configs = cell_configs(results)
    varied, first = differences(configs), next(iter(configs.values()), {})
    return {
        "id": name,
        "sweep": results.sweep,
        "scale": results.scale,
        "title": results.title,
        "claim": [text for text in results.claim.strip().split("\n\n") if text.strip()],
        "command": results.command,
        "complete": completeness(results.trials),
        "cost": _say_cost(results),
        "table": table,
        "cells": describe_cells(results, table),
        "comparisons": compare_cells(results),
        "figures": [
            (f.name, f.caption, inline_svg(style.render(f.draw(), ("svg",))["svg"], name + f.name))
            for f in choose_figures(results)
        ],
        "samples": pick_samples(results.evaluation),
        "varied": varied,
        "configs": list(configs),
        "shared": {k: v for k, v in first.items() if k not in varied},
        "settings": settings_table(results),
    }


def _say_cost(results: Results) -> str:
    trials = results.trials.drop_duplicates("trial_id")
    ran = trials[trials["status"].isin(COUNTED)]
    if ran.empty:
        return "nothing has run yet"
    devices = ran["device"].fillna("unknown device").value_counts().sort_index()
    names = ", ".join(f"{name} ({count})" for name, count in devices.items())
    took = format_seconds(ran["wall_seconds"].sum())
    return f"{plural(len(ran), 'trial')}, {took} of wall time in all; {names}"


def inline_svg(data: bytes, name: str) -> Markup:
    """An SVG file as part of the page: ids of its own, points rounded, the page sets its size."""
    text = SVG_HEAD.sub("", data.decode())
    text = SVG_ID.sub(rf"\g<1>{zlib.crc32(name.encode()):x}-\g<2>", text)
    head, rest = text.split(">", 1)
    rest = SVG_WASTE.sub("", rest.replace("xlink:href", "href").strip())
    rest = SVG_PLACE.sub(lambda place: SVG_DIGITS.sub(r"\1", place[0]), rest)
    rest = SVG_LINES.sub(lambda path: path[0].replace("\nL", "").replace("\n", " "), rest)
    return Markup(f'{SVG_SIZE.sub("", head)} role="img">{rest}')
