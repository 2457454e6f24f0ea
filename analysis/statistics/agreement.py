"""Is a model judged as it was trained? Its loss on trained lengths, next to that of training.

Training ends with the loss of its last reports, evaluation has that of the trained lengths. They
differ a little (test examples have the longest length in all operands). Where the second is many
times the first, the model is judged in a setting that training hardly showed it: another start,
sharper attention. Its exact match then says nothing about what it learned.
"""

import pandas as pd

from analysis.load import Results
from analysis.statistics.training import drawn_lengths

LAST = 0.1  # the share of the steps whose reports count
MANY = 8.0  # times the loss of training: all published cells but one are below 5


def losses(results: Results) -> pd.DataFrame:
    """By cell, in nats per target, the median over runs: `trained`, the loss at the end of
    training, and `judged`, that of evaluation on the trained lengths, each weighted by how often
    training drew it. Cells without either have no row.
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
    return both.dropna().groupby("cell", sort=False).median()


def judged_unlike_trained(results: Results) -> pd.DataFrame:
    """The rows of `losses` in which evaluation is many times training."""
    both = losses(results)
    return both[both["judged"] > MANY * both["trained"]]
