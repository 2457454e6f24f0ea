"""One section of the report: a sweep at one scale, from its claim to its trials."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from analysis.load import COUNTED, Results
from analysis.report import section_tables
from analysis.report.markup import Markup, element, inline_svg, join
from analysis.report.model import SavedFigure, Section
from analysis.report.samples import CellAnswers, ModelAnswer, pick_samples
from analysis.settings import settings_table
from pcore.cli.text import format_seconds, plural


def section_id(sweep: str, scale: str) -> str:
    """The anchor of a section."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", f"{sweep}-{scale}")


def show_section(section: Section, out: Path) -> Markup:
    """The section as HTML; links to files are relative to the report."""
    results, name = section.results, section_id(section.results.sweep, section.results.scale)
    parts: list[str] = [
        element("h2", results.title, " ", element("span", results.scale, class_="scale")),
        *_show_claim(results.claim),
        _show_facts(section, out),
    ]
    if section.table is None:
        parts.append(element("p", "No trial has been evaluated yet.", class_="empty"))
    else:
        parts += [element("h3", "Results"), section_tables.show_table(section.table)]
    if section.comparisons is not None:
        parts += [element("h3", "Comparisons"), section_tables.show_table(section.comparisons)]
    if section.figures:
        parts.append(element("h3", "Figures"))
        parts += [show_figure(figure, name, out) for figure in section.figures]
    parts += _show_samples(section)
    parts += [element("h3", "Provenance"), *_show_provenance(results, name)]
    parts.append(element("p", element("a", "Contents", href="#contents"), class_="up"))
    return element("section", join(parts, "\n"), id=name)


def _show_claim(claim: str) -> Iterator[Markup]:
    """The docstring of the sweep: its question first, then the rest by paragraphs."""
    paragraphs = [" ".join(text.split()) for text in claim.strip().split("\n\n")]
    for i, text in enumerate(text for text in paragraphs if text):
        # what stands between backticks is code
        parts = [element("code", p) if n % 2 else p for n, p in enumerate(text.split("`"))]
        yield element("p", *parts, class_="question" if i == 0 else None)


def _show_facts(section: Section, out: Path) -> Markup:
    results = section.results
    facts: dict[str, str] = {
        "Command": element("code", results.command),
        "Cost": _describe_cost(results),
        "Complete": section_tables.completeness_words(results),
    }
    others = [file for file in section.files if file.suffix in (".md", ".tex", ".csv")]
    if others:
        facts["Files"] = join((_link(file, out, file.name) for file in others), ", ")
    pairs = [join([element("dt", name), element("dd", text)]) for name, text in facts.items()]
    return element("dl", *pairs, class_="facts")


def _describe_cost(results: Results) -> str:
    trials = results.trials.drop_duplicates("trial_id")
    ran = trials[trials["status"].isin(COUNTED)]
    if ran.empty:
        return "nothing has run yet"
    devices = ran["device"].fillna("unknown device").value_counts().sort_index()
    names = ", ".join(f"{name} ({count})" for name, count in devices.items())
    names = str(devices.index[0]) if len(devices) == 1 else names
    took = format_seconds(ran["wall_seconds"].sum())
    return f"{plural(len(ran), 'trial')}, {took} of wall time in all; {names}"


def show_figure(figure: SavedFigure, prefix: str, out: Path) -> Markup:
    """A figure with its caption and files; prefix: of its ids."""
    drawing = inline_svg(figure.svg, f"{prefix}-{figure.name}", figure.caption)
    links = join((_link(f, out, f.suffix[1:].upper()) for f in figure.files), ", ")
    caption = element("figcaption", figure.caption, " ", element("span", links, class_="files"))
    box = element(
        "div", drawing, class_="scroll", role="region", aria_label=figure.name, tabindex="0"
    )
    return element("figure", box, caption, id=f"{prefix}-{figure.name}")


def _link(file: Path, out: Path, text: str) -> Markup:
    relative = Path(os.path.relpath(file.absolute(), out.absolute().parent)).as_posix()
    return element("a", text, href=quote(relative))


def _show_samples(section: Section) -> Iterator[Markup]:
    answers = pick_samples(section.results.evaluation)
    if not answers:
        return
    yield element("h3", "Sample problems")
    yield element(
        "p",
        "At the longest tested length. A wrong answer ends with its first wrong symbol, marked.",
        class_="hint",
    )
    yield from map(_show_answers, answers)


def _show_answers(answers: CellAnswers) -> Markup:
    second = "" if answers.second_length is None else f" × {answers.second_length}"
    title = element("h4", answers.cell, " ", element("small", f"length {answers.length}{second}"))
    items = [_show_sample(sample) for sample in answers.samples]
    return element("div", title, element("ul", *items, class_="samples"), class_="shelf")


def _show_sample(sample: ModelAnswer) -> Markup:
    word = element("b", "✓ right" if sample.is_right else "✗ wrong")
    cut = sample.num_agreeing
    wrong = [] if sample.is_right else [element("mark", sample.predicted[cut:])]
    lines = [("query", [sample.query])]
    if not sample.is_right:
        lines.append(("answer", [sample.answer]))
    lines.append(("model", [sample.predicted[:cut], *wrong]))
    pairs = [
        join([element("dt", name), element("dd", element("code", *text))]) for name, text in lines
    ]
    head = element("p", word, element("small", f" seed {sample.seed}"))
    return element("li", head, element("dl", *pairs), class_="good" if sample.is_right else "bad")


def _show_provenance(results: Results, name: str) -> Iterator[Markup]:
    trials = results.trials
    is_done = trials["status"].isin(COUNTED).all()
    yield _details("Trials per cell", section_tables.show_completeness(results), not is_done)
    yield _details("Configurations", section_tables.show_configs(results))
    if (settings := settings_table(results)) is not None:
        yield _details(settings.title, section_tables.show_table(settings))
    title = f"All {plural(trials['trial_id'].nunique(), 'trial')}: seeds, status, code, device"
    yield _details(title, section_tables.show_trials(results, name))


def _details(title: str, content: Markup, is_open: bool = False) -> Markup:
    return element("details", element("summary", title), content, open="" if is_open else None)
