"""The report: one HTML file that opens from disk, and needs neither a server nor other files.

Verdicts on the published claims come first, then a section per sweep and scale. The same rows give
the same bytes. The script sorts tables; everything else works without it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from analysis.claims.evidence import LEAST_RUNS
from analysis.claims.verdict import Verdict, VerdictRow
from analysis.figures import style
from analysis.load import COUNTED
from analysis.report.markup import Markup, element, join
from analysis.report.model import Section
from analysis.report.section import section_id, show_section
from analysis.report.section_tables import completeness_words
from analysis.tables.files import write_text
from analysis.tables.sweep_tables import DASH

TITLE = "Length generalization of Transformers: ablations"
FOLDER = Path(__file__).parent
VERDICT_STYLES: dict[Verdict, tuple[str, str]] = {  # CSS class and sign, in the order shown
    "reproduced": ("good strong", "✓"),
    "exceeded": ("good strong", "✓"),
    "holds": ("good", "✓"),
    "not reproduced": ("bad strong", "✗"),
    "does not hold": ("bad", "✗"),
    "reversed": ("bad", "✗"),
    "not separated": ("open", "≈"),
    "not enough seeds": ("open", "…"),
    "undecided": ("open", "?"),
    "not run": ("none", "–"),
    "not run at paper scale": ("none", "–"),
}
CERTAINTIES = {
    "paper": "stated in the paper",
    "abstract": "stated in its abstract",
    "secondary": "read from a figure or retold",
    "ours": "our own claim",
}


def build_report(
    sections: Sequence[Section], verdicts: Sequence[VerdictRow], out: Path, title: str = TITLE
) -> Path:
    """Write the report and return its path. Files of the sections are linked relative to it."""
    body = [
        element("a", "Skip to the results", href="#verdicts", class_="skip"),
        element("header", element("h1", title), element("p", _describe(sections), class_="hint")),
        element(
            "main",
            _show_verdicts(verdicts, sections) if verdicts else Markup(""),
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
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, f"<!DOCTYPE html>\n{page}\n")
    return out


def palette() -> str:
    """The colours of the figures, for the style sheet."""
    names = ("blue", "red", "green", "pink", "orange", "black", "sky", "olive")
    colors = dict(zip(names, style.COLORS, strict=True))
    colors |= {"grey": style.GREY, "light": style.LIGHT}
    colors |= {"faint": style.FAINT, "fainter": style.FAINTER}
    return ":root{" + "".join(f"--{name}:{value};" for name, value in colors.items()) + "}\n"


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
        f"{len(trials)} trials ({scales or 'none'}); {versions}. Every number comes from counts in "
        "Parquet rows; its trials are listed at the end of its section."
    )


def _show_verdicts(rows: Sequence[VerdictRow], sections: Sequence[Section]) -> Markup:
    counts = Counter(row.verdict for row in rows)
    chips = [
        element("li", chip(word), f" {counts[word]}") for word in VERDICT_STYLES if counts.get(word)
    ]
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
        f"{LEAST_RUNS} runs of a cell. The rules are in analysis/claims/published.py and ours.py."
    )
    return element(
        "section",
        element("h2", "Verdicts"),
        element("ul", *chips, class_="chips"),
        element("p", note, class_="hint"),
        element("div", table, class_="scroll", role="region", aria_label="verdicts", tabindex="0"),
        id="verdicts",
    )


def _verdict(row: VerdictRow, header: tuple[str, ...], sections: Sequence[Section]) -> Markup:
    parts = [CERTAINTIES.get(row.certainty, row.certainty), row.source, row.remark]
    source = "; ".join(part for part in parts if part)
    rule = element("details", element("summary", "rule"), element("p", row.rule or DASH))
    target = _find_section(row, sections)
    claim = (
        element("a", row.claim, href=f"#{target}") if target else Markup(element("span", row.claim))
    )
    runs = str(row.n) if row.n else DASH
    published = join([row.published, element("small", source)])
    ours = join([row.ours, element("small", row.beside)]) if row.beside else row.ours or DASH
    values = [published, ours, row.scale or DASH, runs, chip(row.verdict)]
    cells = [
        element("td", value, data_label=name)
        for value, name in zip(values, header[1:], strict=True)
    ]
    return element("tr", element("th", claim, rule, scope="row"), *cells)


def chip(word: Verdict) -> Markup:
    """A verdict as a coloured word with its sign."""
    css, sign = VERDICT_STYLES[word]
    return element(
        "span", element("span", sign, aria_hidden="true"), f" {word}", class_=f"chip {css}"
    )


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
