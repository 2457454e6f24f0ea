"""The configurations of the cells of a sweep and how they differ, read from trial rows."""

import json
from typing import Any

from analysis.load import Results
from pcore.config import SEEDS, TrialConfig, flatten

# What is measured, not what is trained: cells that differ here only are alike.
MEASURED = (
    "eval.train_lengths",
    "eval.near_lengths",
    "eval.test_lengths",
    "eval.second_lengths",
    "eval.num_examples",
    "eval.checkpoints",
    "eval.num_checks",
    "eval.stop_error",
)


def cell_configs(results: Results) -> dict[str, dict[str, Any]]:
    """The flat configuration, without seeds, of every cell with at least one trial.

    Fields newer than a row have the default value.
    """
    default = {k: v for k, v in flatten(TrialConfig()).items() if not k.startswith("task.")}
    known = results.trials.dropna(subset=["config_json"]).drop_duplicates("cell")
    texts = dict(zip(known["cell"], known["config_json"], strict=True))
    configs = {cell: default | json.loads(texts[cell]) for cell in results.cells if cell in texts}
    return {
        cell: {k: v for k, v in config.items() if k not in SEEDS}
        for cell, config in configs.items()
    }


def differences(configs: dict[str, dict[str, Any]]) -> dict[str, list[Any]]:
    """The fields in which the cells differ, each with its value per cell (None: it has none)."""
    names = list(dict.fromkeys(name for config in configs.values() for name in config))
    columns = {name: [config.get(name) for config in configs.values()] for name in names}
    return {k: values for k, values in columns.items() if any(v != values[0] for v in values)}


def in_common(configs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The fields that all cells have, with the value that they share."""
    first = next(iter(configs.values()), {})
    varied = differences(configs)
    return {name: value for name, value in first.items() if name not in varied}
