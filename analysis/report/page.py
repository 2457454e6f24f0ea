"""The report: one HTML file that opens from disk, and needs neither a server nor other files.

The headline and the verdicts come first, then a section per sweep and scale. The same rows give
the same bytes. The script sorts tables; everything else works without it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pandas as pd

from analysis.configs import cell_configs
from analysis.findings import LEAST_RUNS, VerdictRow
from analysis.load import COUNTED
from analysis.report.first import (
    TITLE,
    Candidate,
    chip,
    choose_headline,
    palette,
    show_headline,
    show_verdicts,
)
from analysis.report.markup import Markup, element, join
from analysis.report.model import Section
from analysis.report.section import section_id, show_figure, show_section
from analysis.report.section_tables import completeness_words
from analysis.statistics.runs import run_curves
from analysis.tables.sweep_tables import DASH
from pcore.cli.text import plural

FOLDER = Path(__file__).parent
CERTAINTIES = {
    "paper": "stated in the paper",
    "abstract": "stated in its abstract",
    "secondary": "read from a figure or retold",
    "ours": "our own claim",
}


def show_report(
    sections: Sequence[Section], verdicts: Sequence[VerdictRow], out: Path, title: str = TITLE
) -> str:
    """The whole report; files of the sections are linked relative to its place, out."""
    body = [
        element("a", "Skip to the results", href="#verdicts", class_="skip"),
        element("header", element("h1", title), element("p", _describe(sections), class_="hint")),
        element(
            "main",
            _show_first(sections, verdicts, out),
            _show_contents(sections),
            *(show_section(section, out) for section in sections),
        ),
        element("script", Markup((FOLDER / "report.js").read_text(encoding="utf-8"))),
    ]
    head = [
        element("meta", charset="utf-8"),
        element("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", Markup(palette() + (FOLDER / "report.css").read_text(encoding="utf-8"))),
    ]
    page = element("html", element("head", *head), element("body", *body), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def _describe(sections: Iterable[Section]) -> str:
    """How many trials the page rests on."""
    trials: dict[str, str] = {}
    codes: set[str] = set()
    for section in sections:
        ran = section.results.trials
        ran = ran[ran["status"].isin(COUNTED)]
        trials |= dict.fromkeys(ran["trial_id"], section.results.scale)
        codes |= {str(code)[:8] for code in ran["code_hash"].dropna()}
    scales = ", ".join(f"{n} {scale}" for scale, n in sorted(Counter(trials.values()).items()))
    versions = f"pcore {', '.join(sorted(codes))}" if codes else "no code yet"
    return (
        f"{plural(len(trials), 'trial')} ({scales or 'none'}); {versions}. Every number "
        "comes from counts in Parquet rows; its trials are listed at the end of its section."
    )


def _show_first(sections: Sequence[Section], verdicts: Sequence[VerdictRow], out: Path) -> Markup:
    """The headline with the figure of its sweep, beside the verdicts."""
    named = [(section, found) for section in sections for found in _candidates(section)]
    best = choose_headline([found for _, found in named])
    if best is None:
        headline = show_headline(None)
    else:
        section, chosen = named[best]
        figures = [figure for figure in section.figures if figure.name == "lengths"]
        charts = [show_figure(figure, "headline", out) for figure in figures]
        headline = show_headline(chosen, *charts)

    def link(row: VerdictRow) -> Markup:
        return _link_claim(row, sections)

    if not verdicts:
        return element("div", headline, class_="first")
    first = element("div", headline, show_verdicts(verdicts, link), class_="first")
    return join([first, _show_table(verdicts, sections)], "\n")


def _candidates(section: Section) -> Iterator[Candidate]:
    """The cells of a section as its table has them."""
    results, table = section.results, section.table
    if table is None:
        return
    configs = cell_configs(results)
    worst = run_curves(results.evaluation).groupby(["cell", "length"])["exact_match"].min()
    for row in table.numbers.to_dict("records"):
        if not pd.isna(row["l95_over_trained"]) and row["l95"]:
            config = configs[row["cell"]]
            yield Candidate(
                title=results.title,
                scale=results.scale,
                cell=row["cell"],
                task=str(config.get("task.name", "")),
                l95=row["l95"],
                is_longest=row["l95_is_lower_bound"],
                worst=worst[row["cell"], row["l95"]],
                reach=row["l95_over_trained"],
                trained=(row["trained_min"], row["trained_max"]),
                n=row["n"],
                constructed=config.get("model.kind") == "constructed",
            )


def _show_table(rows: Sequence[VerdictRow], sections: Sequence[Section]) -> Markup:
    """All claims with what was published, sources and rules, folded."""
    header = ("claim", "published", "ours", "scale", "runs", "verdict")
    head = element("thead", element("tr", *(element("th", n, scope="col") for n in header)))
    body = [_verdict(row, header, sections) for row in rows]
    table = element(
        "table", head, element("tbody", join(body, "\n")), class_="verdicts", data_sortable=""
    )
    note = (
        "Paper scale judges the published number. Laptop scale can support an ordering only (which "
        "arm is better), never a published number. On another CPU the same seed can be tens of "
        "points away (python -m sweeps replicate SWEEP), so nothing is decided by fewer than "
        f"{LEAST_RUNS} runs of a cell. The rules are in analysis/findings.toml."
    )
    return element(
        "details",
        element("summary", f"All {len(rows)} claims: published values, sources, rules"),
        element("p", note, class_="hint"),
        element("div", table, class_="scroll", role="region", aria_label="verdicts", tabindex="0"),
        id="claims",
    )


def _verdict(row: VerdictRow, header: tuple[str, ...], sections: Sequence[Section]) -> Markup:
    parts = [CERTAINTIES.get(row.certainty, row.certainty), row.source, row.remark]
    source = "; ".join(part for part in parts if part)
    rule = element("details", element("summary", "rule"), element("p", row.rule or DASH))
    claim = _link_claim(row, sections)
    runs = str(row.n) if row.n else DASH
    published = join([row.published, element("small", source)])
    ours = join([row.ours, element("small", row.beside)]) if row.beside else row.ours or DASH
    values = [published, ours, row.scale or DASH, runs, chip(row.verdict)]
    cells = [
        element("td", value, data_label=name)
        for value, name in zip(values, header[1:], strict=True)
    ]
    return element("tr", element("th", claim, rule, scope="row"), *cells)


def _link_claim(row: VerdictRow, sections: Sequence[Section]) -> Markup:
    target = _find_section(row, sections)
    return element("a", row.finding, href=f"#{target}") if target else element("span", row.finding)


def _find_section(row: VerdictRow, sections: Sequence[Section]) -> str | None:
    """The section of the claim's sweep: at the scale that decided, else the first there is."""
    views = [section.results for section in sections if section.results.sweep == row.sweep]
    views.sort(key=lambda results: results.scale != row.scale)
    return section_id(views[0].sweep, views[0].scale) if views else None


def _show_contents(sections: Sequence[Section]) -> Markup:
    return element(
        "nav",
        element("h2", "Contents"),
        element("ul", *_entries(sections)),
        id="contents",
        aria_label="contents",
    )


def _entries(sections: Sequence[Section]) -> Iterator[Markup]:
    for section in sections:
        results = section.results
        link = element("a", results.title, href=f"#{section_id(results.sweep, results.scale)}")
        scale = element("span", results.scale, class_="scale")
        yield element("li", link, " ", scale, element("small", completeness_words(results)))
