"""Scores computed from the counts of evaluation rows."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, TypeVar

Key = TypeVar("Key", bound=Hashable)


def exact_match(counts: Any) -> Any:
    """Share of right examples, of a row of the evaluation or a frame of rows."""
    return counts["num_correct"] / counts["num_examples"]


def near_score(counts: Any) -> Any:
    """(1 - exact match) + (1 - token accuracy); smaller is better.

    counts: a row of the evaluation, or a frame of rows. The second part tells runs apart while
    exact match is 0 everywhere.
    """
    return (1 - exact_match(counts)) + (1 - counts["num_correct_tokens"] / counts["num_tokens"])


def pooled_matches(rows: Iterable[tuple[Key, Mapping[str, Any]]]) -> dict[Key, float]:
    """Exact match over all examples of the rows of each key, in [0, 1]."""
    sums: dict[Key, list[int]] = {}
    for key, row in rows:
        total = sums.setdefault(key, [0, 0])
        total[0] += row["num_correct"]
        total[1] += row["num_examples"]
    return {key: correct / examples for key, (correct, examples) in sums.items()}
