"""HTML as values: `element` escapes every text that is not `Markup` already."""

import re
from collections.abc import Iterable, Sequence
from html import escape

from analysis.tables.sweep_tables import DASH, Entry

EMPTY = ("meta", "br", "hr", "link")
NUMBER = re.compile(r"[≥≤<>+]?([-−]?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?)(?:/(\d+))?(?:\s.*|[%x]|)")
SVG_ID = re.compile(r'(\sid="|href="#|url\(#)([^")]+)')
SVG_HEAD = re.compile(r"^.*?(?=<svg)|<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", re.S)


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(name: str, *children: str, **attributes: str | None) -> Markup:
    """`<name attributes>children</name>`; class_ is class, data_value data-value; None: none."""
    pairs = {key.rstrip("_").replace("_", "-"): text for key, text in attributes.items()}
    head = "".join(f' {key}="{escape(text)}"' for key, text in pairs.items() if text is not None)
    if name in EMPTY:
        return Markup(f"<{name}{head}>")
    return Markup(f"<{name}{head}>{join(children)}</{name}>")


def join(parts: Iterable[str], between: str = "") -> Markup:
    """Texts, escaped where they are not HTML, one after the other."""
    safe = (part if isinstance(part, Markup) else escape(part) for part in parts)
    return Markup(between.join(safe))


def data_table(
    header: Sequence[str | Entry],
    rows: Sequence[Sequence[str | Entry]],
    label: str,
    row_ids: Sequence[str | None] | None = None,
    class_: str | None = None,
) -> Markup:
    """A table that scripts can sort, in a box of its own that scrolls; label: for screen readers.

    The first column names the row; columns of numbers are set to the right.
    """
    numeric = [i > 0 and _is_numeric([row[i] for row in rows]) for i in range(len(header))]
    names = [entry if isinstance(entry, Entry) else Entry(entry) for entry in header]
    head = [
        element("th", *_content(entry), scope="col", class_="number" if numeric[i] else None)
        for i, entry in enumerate(names)
    ]
    body = []
    for number, row in enumerate(rows):
        cells = [_cell(value, i, numeric[i], names[i].text) for i, value in enumerate(row)]
        body.append(element("tr", *cells, id=row_ids[number] if row_ids else None))
    table = element(
        "table",
        element("thead", element("tr", *head)),
        element("tbody", join(body, "\n")),
        data_sortable="",
        class_=class_,
    )
    return element("div", table, class_="scroll", role="region", aria_label=label, tabindex="0")


def _cell(value: str | Entry, column: int, is_numeric: bool, name: str) -> Markup:
    entry = value if isinstance(value, Entry) else Entry(value)
    if column == 0:
        return element("th", *_content(entry), scope="row")
    key = sort_key(entry.text) if is_numeric else None
    return element(
        "td",
        *_content(entry),
        class_="number" if is_numeric else None,
        data_value=None if key is None else f"{key:.12g}",
        data_label=name,
    )


def _content(entry: Entry) -> list[str]:
    return [entry.text, element("small", entry.detail)] if entry.detail else [entry.text]


def _is_numeric(values: Sequence[str | Entry]) -> bool:
    texts = [value.text if isinstance(value, Entry) else value for value in values]
    known = [text for text in texts if text not in ("", DASH)]
    return len(known) > 0 and all(sort_key(text) is not None for text in known)


def sort_key(text: str) -> float | None:
    """What a printed number is sorted by: "≥20 (2.5x)" by 20, "2/8" by 0.25; None for text."""
    found = NUMBER.fullmatch(text)
    if isinstance(text, Markup) or found is None:
        return None
    value = float(found[1].replace(",", "").replace("−", "-"))
    if found[2] is None:
        return value
    return value / int(found[2]) if int(found[2]) else 0.0


def inline_svg(text: str, prefix: str, label: str) -> Markup:
    """An SVG file as part of a page: ids made unique by a prefix, size left to the page."""
    text = SVG_HEAD.sub("", text)
    text = SVG_ID.sub(rf"\g<1>{prefix}-\g<2>", text)
    head, rest = text.split(">", 1)
    head = re.sub(r'\s(width|height|version|xmlns(:\w+)?)="[^"]*"', "", head)
    rest = rest.replace("xlink:href", "href").strip()
    rest = re.sub(r"\n\s*", "\n", rest)
    return Markup(f'{head} role="img" aria-label="{escape(label)}">{rest}')
