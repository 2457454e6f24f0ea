"""How far a tested length is beyond training in tokens: packed rows are longer than problems."""

from collections.abc import Mapping
from typing import Any

from pcore.tasks import TASKS


def token_factor(config: Mapping[str, Any], length: int) -> float | None:
    """Tokens that a model reads for an example of this length, over those of the longest row that
    it was trained on; None for a task of somebody's own.

    config: flat, as `analysis.configs.cell_configs` gives it. A row has BOS once, and no EOS.
    """
    fields = {k.removeprefix("task."): v for k, v in config.items() if k.startswith("task.")}
    if (name := fields.pop("name", None)) not in TASKS:
        return None  # a row runs no code that it names
    task = TASKS[name](**fields)
    most = max(int(number) for number in str(config["data.problems_per_row"]).split(","))
    longest = most * (task.num_tokens(config["data.max_length"]) - 2) + 1
    return (task.num_tokens(length) - 1) / longest
