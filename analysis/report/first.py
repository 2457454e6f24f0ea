"""The first screen of the report and of the page: what reaches furthest, beside the verdicts."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from analysis.figures import style
from analysis.findings import Verdict, VerdictRow
from analysis.report.markup import Markup, element
from analysis.tables.sweep_tables import percent, times
from pcore.cli.text import plural

TITLE = "Length generalization of Transformers: ablations"
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
PRIORITY = ("bad strong", "bad", "good strong", "good")  # what must not be folded away comes first
WHOLE_FROM = 10  # the factor beyond the trained lengths from which on it is said without decimals
MOST_DECIDED, MOST_CLOSE = 3, 2  # claims that the first screen shows unfolded
DECIDED = {word for word, (css, _) in VERDICT_STYLES.items() if css.split()[0] in ("good", "bad")}


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A cell that may be the headline."""

    title: str  # of its sweep
    scale: str
    cell: str
    task: str
    l95: int | None  # None: nothing was measured
    is_longest: bool  # nothing longer was tested
    worst: float  # exact match of the worst run at this length
    reach: float | None  # L95 over the longest trained length
    trained: tuple[int, int]
    n: int
    constructed: bool


def choose_headline(candidates: Sequence[Candidate]) -> int | None:
    """The place of the trained cell that reaches furthest beyond its trained lengths; smoke scale
    only if there is no other.
    """
    places = [i for i, c in enumerate(candidates) if c.reach and not c.constructed]
    places = [i for i in places if candidates[i].scale != "smoke"] or places
    return max(places, key=lambda i: (candidates[i].reach, candidates[i].n, -i), default=None)


def show_headline(chosen: Candidate | None, *chart: Markup) -> Markup:
    """The headline as a sentence over its chart."""
    if chosen is None:
        return element("section", element("p", "No trained cell reaches any length yet."))
    return element(
        "section",
        element("h2", chosen.title, " ", element("span", chosen.scale, class_="scale")),
        element("p", _say_headline(chosen), class_="question"),
        *chart,
    )


def _say_headline(chosen: Candidate) -> str:
    """How far the median goes, and what the worst run does there."""
    low, high = chosen.trained
    is_said = chosen.task.lower() in chosen.title.lower()
    name = chosen.cell if is_said else f"{chosen.cell} ({chosen.task})"
    tested = ", the longest tested" if chosen.is_longest else ""
    reach = chosen.reach or 0
    factor = f"{reach:,.0f}x" if reach >= WHOLE_FROM else times(reach)
    runs = f"worst of n = {chosen.n} runs at that length" if chosen.n > 1 else "n = 1 run"
    return (
        f"{name}: median exact match above 95 % up to length {chosen.l95:,}{tested}, {factor} the "
        f"longest of the trained lengths {low}–{high}; {runs}: {percent(chosen.worst)} %."
    )


def show_verdicts(verdicts: Sequence[VerdictRow], link: Callable[[VerdictRow], Markup]) -> Markup:
    """How many are decided; the first of these and of what is not separated, the others folded.

    link: a claim that leads to its rows.
    """
    decided = [row for row in verdicts if row.verdict in DECIDED]
    decided.sort(key=lambda row: PRIORITY.index(VERDICT_STYLES[row.verdict][0]))
    close = [row for row in verdicts if row.verdict == "not separated"]
    rest = [row for row in verdicts if row.verdict not in DECIDED | {"not separated"}]
    others = element("summary", plural(len(rest), "other claim"))
    return element(
        "section",
        element("h2", "Verdicts on the claims"),
        element("p", _count_verdicts(verdicts), class_="question"),
        element("h3", f"Decided ({len(decided)})"),
        *_list_claims(decided, link, MOST_DECIDED, "decided"),
        element("h3", f"Not separated ({len(close)})"),
        *_list_claims(close, link, MOST_CLOSE, "not separated"),
        element("details", others, *_list_claims(rest, link, len(rest), "")) if rest else "",
        id="verdicts",
    )


def _count_verdicts(verdicts: Sequence[VerdictRow]) -> str:
    """ "18 of 77 claims decided: 18 at laptop scale. The others: 59 not run."""
    scales = Counter(row.scale for row in verdicts if row.verdict in DECIDED)
    others = Counter[Verdict](row.verdict for row in verdicts if row.verdict not in DECIDED)
    where = ", ".join(f"{count} at {scale} scale" for scale, count in scales.most_common())
    words = ", ".join(f"{count} {_say(word, count)}" for word, count in others.most_common())
    text = f"{scales.total()} of {plural(len(verdicts), 'claim')} decided"
    text += f": {where}." if where else "."
    return f"{text} The others: {words}." if words else text


def _say(word: Verdict, count: int) -> str:
    if word == "not run at paper scale":
        return "needs paper scale" if count == 1 else "need paper scale"
    return word


def _list_claims(
    rows: Sequence[VerdictRow], link: Callable[[VerdictRow], Markup], most: int, word: str
) -> Iterator[Markup]:
    """The first of these claims; those beyond so many folded, under a word."""
    if not rows:
        yield element("p", "None.", class_="hint")
        return
    items = [_show_claim(row, link(row)) for row in rows]
    yield element("ul", *items[:most], class_="claims")
    if more := items[most:]:
        summary = element("summary", f"{len(more)} more {word}")
        yield element("details", summary, element("ul", *more, class_="claims"))


def _show_claim(row: VerdictRow, name: Markup) -> Markup:
    facts = [f"{row.scale} scale" if row.scale else "", f"n = {row.n}" if row.n else ""]
    text = "; ".join(part for part in (row.ours, *facts) if part)
    return element("li", chip(row.verdict), " ", name, element("small", text or row.published))


def chip(word: Verdict) -> Markup:
    """A verdict as a coloured word with its sign."""
    css, sign = VERDICT_STYLES[word]
    return element(
        "span", element("span", sign, aria_hidden="true"), f" {word}", class_=f"chip {css}"
    )


def palette() -> str:
    """The colours of the figures, for the style sheet."""
    names = ("blue", "red", "green", "pink", "orange", "black", "sky", "olive")
    colors = dict(zip(names, style.COLORS, strict=True))
    colors |= {"grey": style.GREY, "light": style.LIGHT}
    colors |= {"faint": style.FAINT, "fainter": style.FAINTER}
    return ":root{" + "".join(f"--{name}:{value};" for name, value in colors.items()) + "}\n"
