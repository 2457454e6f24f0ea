"""Writing the page: a sweep is rebuilt only where its rows have changed.

A block carries a stamp over all that it is made from (`analysis.report.stamps`). A page holds its
blocks, so the next one takes over those whose stamp is still right; where all are, nothing is done.
"""

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from analysis.report.browse.links import Block, Links
from analysis.report.stamps import digest, stamp_code, stamp_views
from analysis.tables.files import check_place, write_text
from sweeps.engine.store.store import Store

HEAD = 1000  # characters that hold the stamp of a page
DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What writing a page did."""

    made: tuple[str, ...]  # sweeps that were rebuilt
    left_out: tuple[str, ...]  # a sentence for each sweep and scale without such rows
    changed: bool  # whether the file did


def write_page(
    store: Store, views: Sequence[tuple[str, str]], checkpoint: str, links: Links, out: Path
) -> Written:
    """Write the page of these views (sweep, scale), in their order.

    Raises ValueError if none of them has rows at this checkpoint policy, or if the file cannot be.
    """
    if not views:
        raise ValueError(f"no sweep has been run into {store.root}: there is nothing to browse")
    if check_place(out).is_dir():
        raise ValueError(f"{out} is a folder; --out names a file")
    stamps = dict(_stamps(store, views, checkpoint))
    made_of = digest(*stamps.items(), astuple(links))
    before = out.read_text(encoding="utf-8") if out.is_file() else ""
    is_whole = before.endswith("</html>\n")
    if is_whole and f'<meta name="made-of" content="{made_of}">' in before[:HEAD]:
        return Written(made=(), left_out=(), changed=False)
    _check_folder(out.parent)
    from analysis.report.browse.page import show_page  # slow to import

    kept, blocks, made = _read_blocks(before), list[Block](), list[str]()
    for sweep, stamp in stamps.items():
        if stamp not in kept:
            scales = [scale for name, scale in views if name == sweep]
            kept[stamp] = _make(store, stamp, sweep, scales, checkpoint, stamps)
            made += [sweep] if sweep else []
        blocks.append(kept[stamp])
    left_out = [sentence for block in blocks for sentence in block["left_out"]]
    if not any(block["views"] for block in blocks):
        raise ValueError(left_out[0])
    after = show_page(blocks, links, made_of)
    if after != before:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_text(out, after)
    return Written(made=tuple(made), left_out=tuple(left_out), changed=after != before)


def _check_folder(folder: Path) -> None:
    """Raise ValueError if a file in this folder, which may not exist yet, cannot be written."""
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not (existing.is_dir() and os.access(existing, os.W_OK)):
        raise ValueError(f"nothing can be written to {folder}: check the permissions of {existing}")


def _make(
    store: Store, stamp: str, sweep: str, scales: Sequence[str], checkpoint: str, known: Any
) -> Block:
    from analysis.load import load_sweep
    from analysis.report.browse.blocks import make_block, make_rest

    if not sweep:
        return make_rest(stamp, known)
    found, left_out = [], []
    for scale in scales:
        try:
            found.append(load_sweep(store, sweep, scale, checkpoint))
        except ValueError as error:
            left_out.append(f"{sweep} ({scale}): {error}")
    return make_block(stamp, sweep, found) | {"left_out": left_out}


def _stamps(
    store: Store, views: Sequence[tuple[str, str]], checkpoint: str
) -> Iterator[tuple[str, str]]:
    """The stamp of each sweep, and at "" that of the claims on all others."""
    known = stamp_views(store, [(*view, checkpoint) for view in views])
    for sweep in dict.fromkeys(sweep for sweep, _ in views):
        yield sweep, digest(sweep, [text for view, text in known.items() if view[0] == sweep])
    yield "", digest(stamp_code(), sorted({sweep for sweep, _ in views}))


def _read_blocks(page: str) -> dict[str, Block]:
    """The blocks of a page by their stamps; none if it is not one of our pages."""
    try:
        found = DATA.search(page)
        return {str(b["stamp"]): b for b in json.loads(found[1])["blocks"]} if found else {}
    except (ValueError, LookupError, TypeError):
        return {}
