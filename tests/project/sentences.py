"""Which sentences of README and docs are derived, and what else may stand there: data of
test_sentences.

A check (`tests.project.derived`) returns passages as they must stand on the page, words included,
with numbers from the published rows or the settings of the sweeps; what a passage says in words is
asserted. What no row or setting says stands in `without_rows.toml`, word for word, with the reason.
"""

import re
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tests.project.derived import (
    core_results,
    found_coupling,
    front_page,
    laptop_recipe,
    mixers,
    models_and_theory,
    packed_controls,
    published_rows,
    thousand_digits,
)

ROOT = Path(__file__).parents[2]
RESULTS: dict[str, tuple[Callable[[], list[str]], ...]] = {
    "README.md": front_page.CHECKS,
    "docs/results.md": (*core_results.CHECKS, *mixers.CHECKS),
    "docs/models.md": (*models_and_theory.MODELS, mixers.one_setting_on_the_other_page),
    "docs/theory.md": models_and_theory.THEORY,
    "docs/found_coupling.md": found_coupling.CHECKS,
    "docs/laptop_recipe.md": laptop_recipe.CHECKS,
    "docs/thousand_digits.md": (
        *thousand_digits.CHECKS,
        *packed_controls.CHECKS,
        front_page.ten_thousand_digits,
    ),
    "results/published/README.md": published_rows.CHECKS,
}
# Passages that stand on no published row, and why they may.
WITHOUT_ROWS = {
    page: {" ".join(entry["text"].split()): entry["reason"] for entry in entries}
    for page, entries in tomllib.loads(
        (Path(__file__).parent / "without_rows.toml").read_text()
    ).items()
}
# Pages of measurements of speed.
OTHER_PAGES = ("docs/performance.md", "docs/paper_scale.md")
# Guides with a result or two: of their other sentences only shares are looked for.
GUIDES = ("docs/models.md",)

FILLED = re.compile(r"<!-- pcore .*?<!-- /pcore -->", flags=re.DOTALL)
CODE = re.compile(r"^```.*?^```|^    .*?$", flags=re.DOTALL | re.MULTILINE)
TABLE = re.compile(r"^\|.*?$", flags=re.MULTILINE)
SHARE = re.compile(r"\d ?%")
WORD = (
    "no|none|neither|one|two|three|four|five|six|seven|eight|nine|ten|eleven|half|all|every|each|"
    "both|most"
)
NOUN = (
    "of|runs?|arms?|models?|seeds?|trials?|steps|digits?|sums?|layers?|heads?|rings?|tasks?|"
    "examples?|problems?|points|times|minutes|rows?"
)
CLAIM = re.compile(
    rf"{SHARE.pattern}"
    rf"|\b(?:{WORD}) (?:{NOUN})\b"
    rf"|\b\d(?:[\d,.]*\d)? (?:{NOUN}|nats|IDs|symbols)\b"
    r"|(?<!\S)\*\*(?=\w)(?:[^*\s]+ ){3,}[^*]*\*\*"  # a sentence in bold
    r"|- \*\*\w[^*]*\*\*"  # the bold start of a line of a list
    r"|\| [\d–][^|]* \|",  # a number in a table
    flags=re.IGNORECASE,
)


def flow(text: str) -> str:
    """The text on one line: where lines break says nothing."""
    return " ".join(text.split())


@cache
def said(check: Callable[[], list[str]]) -> tuple[str, ...]:
    """The passages of a check, made once."""
    return tuple(check())


def passages(page: str) -> tuple[str, ...]:
    """All that are derived or exempt."""
    derived = (passage for check in RESULTS.get(page, ()) for passage in said(check))
    return (*derived, *WITHOUT_ROWS.get(page, ()))


def missing(page: str, text: str) -> list[str]:
    """Passages of a page that its text lacks."""
    text = flow(text)
    return [passage for passage in passages(page) if passage not in text]


def unchecked(page: str, text: str) -> list[str]:
    """Claims that stand in no passage. Tables count where results are."""
    is_guide = page in GUIDES or page not in RESULTS
    stripped = CODE.sub("", FILLED.sub("", text))
    prose = flow(TABLE.sub("", stripped) if is_guide else stripped)
    for passage in sorted(passages(page), key=len, reverse=True):
        prose = prose.replace(passage, " ")
    claim = SHARE if is_guide else CLAIM
    return [prose[max(0, m.start() - 60) : m.end() + 20] for m in claim.finditer(prose)]
