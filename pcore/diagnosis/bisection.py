"""The longest length that a trained model solves, found by bisection: few lengths are evaluated.

Assumes that exact match does not rise with length: whatever lies between two visited lengths is
taken for granted. So this is a quick answer about one model, never a row of a table, where every
length of a curve is measured.
"""

from collections.abc import Callable, Sequence

from pcore.config import TrialConfig
from pcore.evaluation.evaluate import LengthResult, evaluate_length
from pcore.evaluation.stopping import SOLVED
from pcore.model.transformer import LanguageModel
from pcore.training.validate import check_test_length


def bisect_lengths(lengths: Sequence[int], is_solved: Callable[[int], bool]) -> int:
    """The longest of ascending lengths that is solved, 0 if none; asks about log2 of them.

    The longest length is asked first: a model that solves it needs no search.
    """
    if not lengths or is_solved(lengths[-1]):
        return lengths[-1] if lengths else 0
    low, high = -1, len(lengths) - 1  # solved below and at low, not solved at high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_solved(lengths[middle]) else (low, middle)
    return lengths[low] if low >= 0 else 0


def find_l95(
    model: LanguageModel, config: TrialConfig, lengths: Sequence[int]
) -> tuple[int, list[LengthResult]]:
    """L95 among these lengths, and what was measured on the way, shortest first.

    With `eval.stop_error` each length is left as soon as it is decided. Raises ValueError if the
    model cannot be tested at a length.
    """
    if not lengths:
        raise ValueError("no lengths to look at: give at least one")
    for length in lengths:
        check_test_length(config, length)
    visited: dict[int, LengthResult] = {}

    def is_solved(length: int) -> bool:
        second = config.task.default_second(length)
        visited[length] = evaluate_length(
            model, config, "", 0, _range(config, length), length, second
        )
        counts = visited[length].counts
        return counts.num_correct > SOLVED * counts.num_examples

    longest = bisect_lengths(sorted(set(lengths)), is_solved)
    return longest, [visited[length] for length in sorted(visited)]


def _range(config: TrialConfig, length: int) -> str:
    return "train" if config.data.min_length <= length <= config.data.max_length else "test"
