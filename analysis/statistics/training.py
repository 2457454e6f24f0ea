"""Which lengths a cell was trained on and how often: the weights of "train" in tables; and how far
a tested length is beyond them in tokens.

Training draws the lengths of an example independently: of two operands of 1-12 digits, the longer
has 12 digits in 16 % of the examples and 1 digit in 0.7 %. The share of a length is that of the
training examples whose longest operand has it. Test examples have the length in all operands, which
is the hardest case.
"""

from collections.abc import Mapping
from typing import Any

from analysis.load import Results, cell_configs
from pcore.tasks import TASKS, Task
from pcore.tasks.addition import Addition
from pcore.tasks.minesweeper import Minesweeper
from pcore.tasks.multiplication import Multiplication


def drawn_lengths(results: Results) -> dict[str, dict[int, float]]:
    """By cell: the share of training examples of each length. Cells without any attempt are left
    out; a task of a user's own counts as drawing its lengths uniformly."""
    return {cell: _shares(config) for cell, config in cell_configs(results).items()}


def _shares(config: Mapping[str, Any]) -> dict[int, float]:
    low, high = config["data.min_length"], config["data.max_length"]
    if (task := _known_task(config)) is None:
        return uniform_shares(low, high)
    return length_shares(task, low, high, bool(config["eval.second_lengths"]))


def length_shares(task: Task, low: int, high: int, has_seconds: bool) -> dict[int, float]:
    """The share of each length among the training examples of a task.

    has_seconds: second lengths were tested too, so that of two numbers the length is that of the
    first, not of the longer one.
    """
    if isinstance(task, Addition):  # a second length is the number of operands
        counts = range(task.min_operands or task.num_operands, task.num_operands + 1)
        shares = [longest_shares(count, low, high) for count in counts]
        mixed = {n: sum(share[n] for share in shares) / len(shares) for n in shares[0]}
        if not task.scratchpad:
            return mixed
        alike = uniform_shares(low, high)  # half of the examples have one length in all operands
        return {n: (mixed[n] + alike[n]) / 2 for n in mixed}
    two = isinstance(task, Minesweeper) or (isinstance(task, Multiplication) and task.scratchpad)
    return longest_shares(2 if two and not has_seconds else 1, low, high)


def longest_shares(count: int, low: int, high: int) -> dict[int, float]:
    """How often each length is the longest of `count` independent ones."""
    total = high - low + 1
    below = range(total)  # lengths smaller than this one
    return {low + k: ((k + 1) ** count - k**count) / total**count for k in below}


def uniform_shares(low: int, high: int) -> dict[int, float]:
    """Every length alike."""
    return longest_shares(1, low, high)


def token_factor(config: Mapping[str, Any], length: int) -> float | None:
    """Tokens that a model reads for an example of this length, over those of the longest row that
    it was trained on (packed rows are longer than problems); None for a task of somebody's own.

    config: flat, as `cell_configs` gives it. A row has BOS once, and no EOS.
    """
    if (task := _known_task(config)) is None:
        return None
    most = max(int(number) for number in str(config["data.problems_per_row"]).split(","))
    longest = most * (task.num_tokens(config["data.max_length"]) - 2) + 1
    return (task.num_tokens(length) - 1) / longest


def _known_task(config: Mapping[str, Any]) -> Task | None:
    """The task of a flat configuration; None for somebody's own: a row runs no code that it
    names."""
    fields = {k.removeprefix("task."): v for k, v in config.items() if k.startswith("task.")}
    name = fields.pop("name", None)
    return TASKS[name](**fields) if name in TASKS else None
