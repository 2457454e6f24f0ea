"""HTML as values: `element` escapes every text that is not `Markup` already."""

import re
from collections.abc import Iterable, Sequence
from html import escape

from analysis.tables.sweep_tables import DASH, TableCell

EMPTY = ("meta", "br", "hr", "link", "input")
NUMBER = re.compile(r"[≥≤<>+]?([-−]?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?)(?:/(\d+))?[*†]?(?:\s.*|[%x]|)")
SVG_ID = re.compile(r'(\sid="|href="#|url\(#)([^")]+)')
SVG_HEAD = re.compile(r"^.*?(?=<svg)|<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", re.S)


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(name: str, *children: str, **attributes: str | None) -> Markup:
    """`<name attributes>children</name>`; class_ stands for class, data_value for data-value."""
    pairs = {key.rstrip("_").replace("_", "-"): text for key, text in attributes.items()}
    head = "".join(f' {key}="{escape(text)}"' for key, text in pairs.items() if text is not None)
    if name in EMPTY:
        return Markup(f"<{name}{head}>")
    return Markup(f"<{name}{head}>{join(children)}</{name}>")


def join(parts: Iterable[str], between: str = "") -> Markup:
    """Texts one after the other, escaped unless they are `Markup`."""
    safe = (part if isinstance(part, Markup) else escape(part) for part in parts)
    return Markup(between.join(safe))


def data_table(
    header: Sequence[str | TableCell],
    rows: Sequence[Sequence[str | TableCell]],
    label: str,
    row_ids: Sequence[str | None] | None = None,
    class_: str | None = None,
) -> Markup:
    """A table that scripts can sort, in a box of its own that scrolls; label: for screen readers.

    The first column names the row; columns of numbers are set to the right.
    """
    numeric = [i > 0 and _is_numeric([row[i] for row in rows]) for i in range(len(header))]
    names = [_table_cell(value) for value in header]
    head = [
        element("th", *_content(name), scope="col", class_="number" if numeric[i] else None)
        for i, name in enumerate(names)
    ]
    body = []
    for number, row in enumerate(rows):
        cells = [_show_cell(value, i, numeric[i], names[i].text) for i, value in enumerate(row)]
        body.append(element("tr", *cells, id=row_ids[number] if row_ids else None))
    table = element(
        "table",
        element("thead", element("tr", *head)),
        element("tbody", join(body, "\n")),
        data_sortable="",
        class_=class_,
    )
    return element("div", table, class_="scroll", role="region", aria_label=label, tabindex="0")


def _show_cell(value: str | TableCell, column: int, is_numeric: bool, name: str) -> Markup:
    cell = _table_cell(value)
    if column == 0:
        return element("th", *_content(cell), scope="row")
    key = sort_key(cell.text) if is_numeric else None
    return element(
        "td",
        *_content(cell),
        class_="number" if is_numeric else None,
        data_value=None if key is None else f"{key:.12g}",
        data_label=name,
    )


def _table_cell(value: str | TableCell) -> TableCell:
    return value if isinstance(value, TableCell) else TableCell(value)


def _content(cell: TableCell) -> list[str]:
    return [cell.text, element("small", cell.detail)] if cell.detail else [cell.text]


def _is_numeric(values: Sequence[str | TableCell]) -> bool:
    texts = [_table_cell(value).text for value in values]
    keys = [sort_key(text) for text in texts if text not in ("", DASH)]
    return len(keys) > 0 and None not in keys


def sort_key(text: str) -> float | None:
    """The key of a printed number: 20 for "≥20 (2.5x)", 0.25 for "2/8"; None for text."""
    match = NUMBER.fullmatch(text)
    if isinstance(text, Markup) or match is None:
        return None
    value = float(match[1].replace(",", "").replace("−", "-"))
    if match[2] is None:
        return value
    return value / int(match[2]) if int(match[2]) else 0.0


def inline_svg(text: str, prefix: str, label: str) -> Markup:
    """An SVG file as part of a page: ids made unique by a prefix, size left to the page."""
    text = SVG_HEAD.sub("", text)
    text = SVG_ID.sub(rf"\g<1>{prefix}-\g<2>", text)
    head, rest = text.split(">", 1)
    head = re.sub(r'\s(width|height|version|xmlns(:\w+)?)="[^"]*"', "", head)
    rest = rest.replace("xlink:href", "href").strip()
    rest = re.sub(r"\n\s*", "\n", rest)
    return Markup(f'{head} role="img" aria-label="{escape(label)}">{rest}')
