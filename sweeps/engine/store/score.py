"""The near-range score of a run, used by searches and selections."""

from typing import Any


def near_score(counts: Any) -> Any:
    """(1 - exact match) + (1 - token accuracy); smaller is better.

    counts: a row of the evaluation, or a frame of rows. The second part tells runs apart while
    exact match is 0 everywhere.
    """
    exact_match = counts["num_correct"] / counts["num_examples"]
    return (1 - exact_match) + (1 - counts["num_correct_tokens"] / counts["num_tokens"])
