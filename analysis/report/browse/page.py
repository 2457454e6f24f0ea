"""The page as HTML: headline and verdicts, then every cell of the store, then a legend.

It opens from disk and asks the network for nothing. Texts of rows are escaped here or set as text
by the script, and only the scripts of this folder may run (a policy with their hashes).
"""

import base64
import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from analysis.findings import VerdictRow
from analysis.load import COUNTED
from analysis.report.browse.links import Block, Links
from analysis.report.first import (
    TITLE,
    Candidate,
    choose_headline,
    palette,
    show_headline,
    show_verdicts,
)
from analysis.report.markup import Markup, data_table, element, join
from analysis.tables.sweep_tables import TableCell
from pcore.cli.text import plural

FOLDER = Path(__file__).parent
SCRIPTS = ("uplot/uPlot.iife.min.js", "../report.js", "chart.js", "browse.js")
SHEETS = ("uplot/uPlot.min.css", "../report.css", "browse.css")
FILTERS = ("sweep", "scale", "task", "encoding", "layers")
LENGTHS = ("near 1.5x", "near 2x", "longest")  # at which the table shows exact match
AXES = ("auto", "linear", "logarithmic")
MOST_SHOWN = 6  # cells of the headline figure
NOTES = (
    "L95: largest tested length up to which the median EM stays above 95 % (x the trained length); "
    "≥: nothing longer was tested; *: a length on which recipes are tuned.",
    "EM: exact match in %, with the length it was measured at (in the head where most rows "
    "have the same): those nearest to 1.5 and 2 times the longest trained one, and the longest "
    "tested. EM train: over the trained lengths; †: at "
    "most 95 %, so the cell does not fit them; its other numbers say nothing about longer ones.",
    "runs: counted/planned. A diverged run counts with 0 % at every length; runs that failed "
    "otherwise or are missing do not count. not ok: how many of the planned these are.",
)


def show_page(blocks: Sequence[Block], links: Links, made_of: str) -> str:
    """The whole page; made_of: a stamp that it carries. Same arguments: same bytes."""
    rows = list(_rows(blocks))
    scripts = [(FOLDER / name).read_text(encoding="utf-8") for name in SCRIPTS]
    sheets = palette() + "\n".join((FOLDER / n).read_text(encoding="utf-8") for n in SHEETS)
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {_hashes(scripts)}"
    head = [
        element("meta", charset="utf-8"),
        element("meta", name_="made-of", content=made_of),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        element("title", TITLE),
        element("style", Markup(sheets)),
    ]
    body = [
        element("a", "Skip to the cells", href="#cells", class_="skip"),
        element(
            "header", element("h1", TITLE), element("p", _describe(rows, links), class_="hint")
        ),
        element("main", _show_first(blocks, rows), _show_cells(rows)),
        _data(blocks, links),
        *(element("script", Markup(text)) for text in scripts),
    ]
    page = element("html", element("head", *head), element("body", *body), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def _hashes(scripts: Iterable[str]) -> str:
    digests = (hashlib.sha256(text.encode()).digest() for text in scripts)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


def _data(blocks: Sequence[Block], links: Links) -> Markup:
    """All blocks for the script, and for the next page."""
    data = {"results": links.results, "report": links.report, "sections": links.sections}
    text = json.dumps(data | {"blocks": blocks}, allow_nan=False, separators=(",", ":"))
    safe = text.replace("<", "\\u003c")  # no tag begins inside a string
    return element("script", Markup(safe), type="application/json", id="data")


def _rows(blocks: Iterable[Block]) -> Iterator[dict[str, Any]]:
    """Every cell with what its sweep and scale say, in the order of the script."""
    for block in blocks:
        for view in block["views"]:
            shared = {name: view[name] for name in ("scale", "title", "checkpoint")}
            for cell in view["cells"]:
                yield cell | shared | {"sweep": block["sweep"]}


def _describe(rows: Sequence[Mapping[str, Any]], links: Links) -> Markup:
    """How much the page rests on, and on which rows."""
    trials = {trial["id"]: (row["scale"], trial) for row in rows for trial in row["trials"]}
    scales = Counter(scale for scale, _ in trials.values())
    states = Counter(trial["status"] for _, trial in trials.values())
    counted = sum(states.pop(name, 0) for name in COUNTED)
    parts = ", ".join(f"{count} at {scale} scale" for scale, count in sorted(scales.items()))
    failed = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    text = f"{plural(len(trials), 'trial')} ({parts or 'none'}), {counted} of them counted"
    report = (
        [" ", element("a", "Report with all tables and figures", href=links.report), "."]
        if links.report
        else []
    )
    text += f"; {failed}" if failed else ""
    return join([f"{text}. Rows of ", element("code", links.results), ".", *report])


def _show_first(blocks: Sequence[Block], rows: Sequence[Mapping[str, Any]]) -> Markup:
    """The first screen: the headline figure beside the verdicts."""
    found = [
        (v["place"], VerdictRow(**{k: x for k, x in v.items() if k != "place"}))
        for block in blocks
        for v in block["verdicts"]
    ]
    verdicts = [row for _, row in sorted(found, key=lambda pair: pair[0])]
    candidates = [_candidate(row) for row in rows]
    best = choose_headline(candidates)
    if best is None:
        headline = show_headline(None)
    else:
        headline = show_headline(candidates[best], *_draw_headline(rows, best))
    return element("div", headline, show_verdicts(verdicts, _link_claim), class_="first")


def _candidate(row: Mapping[str, Any]) -> Candidate:
    curves = [dict(zip(row["lengths"], run["curve"], strict=False)) for run in row["trials"]]
    found = [curve.get(row["l95"]) for curve in curves]
    return Candidate(
        title=row["title"],
        scale=row["scale"],
        cell=row["cell"],
        task=row["task"],
        l95=row["l95"],
        is_longest=row["is_longest"],
        worst=min((value / 100 for value in found if value is not None), default=math.nan),
        reach=row["reach"],
        trained=row["trained"],
        n=row["n"],
        constructed=row["constructed"],
    )


def _draw_headline(rows: Sequence[Mapping[str, Any]], best: int) -> Iterator[Markup]:
    """The chart of this cell, and thin those of its sweep that reach furthest."""
    view = (rows[best]["sweep"], rows[best]["scale"])
    beside = [i for i, other in enumerate(rows) if (other["sweep"], other["scale"]) == view]
    beside = sorted(beside, key=lambda i: (-(rows[i]["reach"] or 0), i))[:MOST_SHOWN]
    shown = " ".join(map(str, sorted(beside)))
    yield element("div", class_="chart", id="headline", data_cells=shown, data_lead=str(best))
    yield element("p", class_="hint caption")
    yield element("noscript", "The charts need JavaScript; the table does not.")


def _link_claim(row: VerdictRow) -> Markup:
    """The claim; a click filters the table."""
    return element("a", row.finding, href="#", data_sweep=row.sweep, data_scale=row.scale)


def _show_cells(rows: Sequence[Mapping[str, Any]]) -> Markup:
    header = [
        TableCell("cell", "sweep, scale"),
        TableCell("runs"),
        TableCell("L95", "(x trained)"),
        *(TableCell(f"EM {name}", "at length") for name in LENGTHS),
        TableCell("EM train"),
        TableCell("not ok"),
        TableCell("encoding", "task, layers"),
    ]
    table = data_table(
        header,
        [_row(row) for row in rows],
        "all cells",
        row_ids=[f"c{number}" for number in range(len(rows))],
        class_="small",
    )
    return element(
        "section",
        element("h2", "All cells"),
        _show_filters(rows),
        _show_notes(rows),
        element(
            "div",
            element("div", table, id="table"),
            _show_chosen(),
            class_="browse",
        ),
        id="cells",
    )


def _show_chosen() -> Markup:
    """Where the script shows the cells that were clicked: it is hidden while there are none."""
    clear = element("button", "clear selection", type="button", id="clear")
    return element(
        "aside",
        element(
            "div",
            element("div", class_="chart", id="chart"),
            element("p", class_="hint caption"),
        ),
        element("div", element("p", clear), element("div", id="trials")),
        hidden="",
        aria_label="curves and trials",
    )


def _row(row: Mapping[str, Any]) -> list[str | TableCell]:
    failed = Counter(trial["status"] for trial in row["trials"])
    failed.pop("ok", None)
    states = ", ".join(f"{count} {state}" for state, count in sorted(failed.items()))
    name = element("button", row["cell"], type="button", aria_pressed="false", class_="pick")
    layers = "" if row["layers"] is None else f", {plural(row['layers'], 'layer')}"
    return [
        TableCell(name, f"{row['sweep']}, {row['scale']}"),
        f"{row['n']}/{len(row['trials'])}",
        TableCell(*row["L95"]),
        *(_at(*row["exact_match"][name]) for name in LENGTHS),
        TableCell(*row["train"]),
        TableCell(str(sum(failed.values())), states),
        TableCell(row["encoding"], f"{row['task']}{layers}"),
    ]


def _at(length: int | Literal[""], value: Sequence[str]) -> TableCell:
    """An exact match with its length, which the script moves to the head where most rows have the
    same, and its interval.
    """
    text, interval = value
    if not length:
        return TableCell(text)
    return TableCell(text, join([element("span", f"at {length} ", class_="at"), interval]))


def _show_filters(rows: Sequence[Mapping[str, Any]]) -> Markup:
    axes = [element("option", name, value="" if name == "auto" else name) for name in AXES]
    return element(
        "form",
        *(_show_filter(name, rows) for name in FILTERS),
        element("label", "words", element("input", type="search", name_="words", size="12")),
        element("label", "length axis", element("select", *axes, name_="axis")),
        element("button", "reset", type="reset"),
        element("output", id="count"),
        id="filters",
        class_="filters",
    )


def _show_filter(name: str, rows: Sequence[Mapping[str, Any]]) -> Markup:
    counts = Counter(str(row[name]) for row in rows if row[name] is not None)
    values = list(counts) if name == "sweep" else sorted(counts, key=lambda v: (len(v), v))
    options = [element("option", f"{v} ({counts[v]})", value=v) for v in values]
    return element(
        "label", name, element("select", element("option", "all", value=""), *options, name_=name)
    )


def _show_notes(rows: Sequence[Mapping[str, Any]]) -> Markup:
    """How many runs and whose weights a number is of; what the columns mean, folded."""
    policies = "; ".join(sorted({row["checkpoint"] for row in rows}))
    notes = element("ul", *(element("li", note) for note in NOTES), class_="notes")
    short = (
        "Medians over counted runs [interval]. Click rows: their curves, overlaid, and their "
        "trials appear below the table."
    )
    return join(
        [
            element("p", f"{short} Checkpoint: {policies}.", class_="hint"),
            element("details", element("summary", "What the columns mean"), notes, class_="hint"),
        ]
    )
