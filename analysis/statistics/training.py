"""Which lengths a cell was trained on and how often: the weights of "train" in tables; and how far
a tested length is beyond them in tokens; whether models are judged as they were trained.

Training draws the lengths of an example independently: of two operands of 1-12 digits, the longer
has 12 digits in 16 % of the examples and 1 digit in 0.7 %. The share of a length is that of the
training examples whose longest operand has it. Test examples have the length in all operands, which
is the hardest case.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.load import Results, cell_configs, known_task
from pcore.tasks import Task
from pcore.tasks.addition import Addition
from pcore.tasks.minesweeper import Minesweeper
from pcore.tasks.multiplication import Multiplication

LAST = 0.1  # the share of the steps whose reports count
MANY = 8.0  # times the loss of training: all published cells but one are below 5


def drawn_lengths(results: Results) -> dict[str, dict[int, float]]:
    """By cell: the share of training examples of each length. Cells without any attempt are left
    out; a task of a user's own counts as drawing its lengths uniformly."""
    return {
        cell: length_shares(
            known_task(config),
            config["data.min_length"],
            config["data.max_length"],
            bool(config["eval.second_lengths"]),
        )
        for cell, config in cell_configs(results).items()
    }


def length_shares(task: Task | None, low: int, high: int, has_seconds: bool) -> dict[int, float]:
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
        alike = longest_shares(1, low, high)  # half of the examples have one length in all operands
        return {n: (mixed[n] + alike[n]) / 2 for n in mixed}
    two = isinstance(task, Minesweeper) or (isinstance(task, Multiplication) and task.scratchpad)
    return longest_shares(2 if two and not has_seconds else 1, low, high)


def longest_shares(count: int, low: int, high: int) -> dict[int, float]:
    """How often each length is the longest of `count` independent ones."""
    total = high - low + 1
    below = range(total)  # lengths smaller than this one
    return {low + k: ((k + 1) ** count - k**count) / total**count for k in below}


def token_factor(config: Mapping[str, Any], length: int) -> float | None:
    """Tokens that a model reads for an example of this length, over those of the longest row that
    it was trained on (packed rows are longer than problems); None for a task of somebody's own.

    config: flat, as `cell_configs` gives it. A row has BOS once, and no EOS.
    """
    if (task := known_task(config)) is None:
        return None
    most = max(int(number) for number in str(config["data.problems_per_row"]).split(","))
    longest = most * (task.num_tokens(config["data.max_length"]) - 2) + 1
    return (task.num_tokens(length) - 1) / longest


def judged_unlike_trained(results: Results) -> pd.DataFrame:
    """By cell, in nats per target, the median over runs: `trained`, the loss at the end of
    training, and `judged`, that of evaluation on the trained lengths, each weighted by how often
    training drew it. Cells in which the second is many times the first.

    They differ a little (test examples have the longest length in all operands). A model for which
    they differ much is judged in a setting that training hardly showed it: another start, sharper
    attention. Its exact match then says nothing about what it learned.
    """
    drawn = drawn_lengths(results)
    rows = results.evaluation
    rows = rows[(rows["range"] == "train") & (rows["status"] == "ok")]
    shares = [
        drawn.get(cell, {}).get(length, 0.0)
        for cell, length in zip(rows["cell"], rows["length"], strict=True)
    ]
    sums = rows[["loss_sum", "num_tokens"]].div(rows["num_examples"], axis=0).mul(shares, axis=0)
    judged = sums.groupby([rows["cell"], rows["trial_id"]], sort=False).sum()
    reports = results.reports
    ends = reports.groupby(["cell", "trial_id"])["step"].transform("max")
    last = reports[reports["step"] > (1 - LAST) * ends]
    both = pd.DataFrame(
        {
            "trained": last.groupby(["cell", "trial_id"], sort=False)["loss"].mean(),
            "judged": judged["loss_sum"] / judged["num_tokens"],
        }
    )
    both = both.dropna().groupby("cell", sort=False).median()
    return both[both["judged"] > MANY * both["trained"]]
