"""Made-up results for the rules of findings: small cells, and whole sweeps as published; frames as
`analysis.load` gives them, without a store."""

import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import pandas as pd

from analysis.load import RUN, Results
from pcore.config import TrialConfig, flatten, override, trial_id
from pcore.evaluation import evaluation_lengths
from sweeps.commands.catalogue import find_sweep

NUM_EXAMPLES = 1000
TRAINED = range(1, 9)
LENGTHS = (*TRAINED, 10, 12, 14, 16, 18, 20, 24)
Curve = Mapping[Any, float]  # length, or (length, second length): exact match


def reach(longest: int, beyond: float = 0.0) -> Curve:
    """Perfect up to a length, `beyond` after it."""
    return {length: 1.0 if length <= longest else beyond for length in LENGTHS}


def make_results(arms: Mapping[str, Iterable[Curve]], scale: str = "laptop") -> Results:
    """A sweep with these cells, each with these runs; trained on 1-8."""
    rows = []
    for order, (cell, runs) in enumerate(arms.items()):
        for seed, curve in enumerate(runs):
            run = run_columns(cell, order, seed)
            for key, share in curve.items():
                length, second = key if isinstance(key, tuple) else (key, None)
                name = "train" if length in TRAINED else "test"
                rows.append(run | evaluation_columns(name, length, second, share))
    return as_results(rows, scale)


def run_columns(cell: str, order: int, seed: int) -> dict[str, Any]:
    trial = f"{order}-{seed}"
    numbers = {"cell_order": order, "seed": seed, "data_seed": seed}
    return {"cell": cell, "trial_id": trial, "status": "ok", "checkpoint": "last"} | numbers


def evaluation_columns(
    name: str, length: int, second: int | None, share: float, num_examples: int = NUM_EXAMPLES
) -> dict[str, Any]:
    correct = round(share * num_examples)
    counts = {"num_examples": num_examples, "num_correct": correct}
    test_set = f"set-{length}-{second}"
    keys = {"range": name, "length": length, "second_length": second, "test_set": test_set}
    return keys | counts | {"exact_match": correct / num_examples}


def as_results(
    rows: list[dict[str, Any]],
    scale: str,
    sweep: str = "ours",
    configs: Mapping[str, TrialConfig] | None = None,
) -> Results:
    """Frames of these evaluation rows; the configurations of cells where they matter."""
    evaluation = pd.DataFrame(rows).astype({"second_length": "Int64"})
    trials = evaluation[RUN].drop_duplicates().reset_index(drop=True)
    span = {"data.min_length": min(TRAINED), "data.max_length": max(TRAINED)}
    plain = flatten(override(TrialConfig(), span))
    known = {cell: flatten(config) for cell, config in (configs or {}).items()}
    columns = [known.get(cell, plain) for cell in trials["cell"]]
    for name in (*span, "model.num_bits"):
        trials[name] = [column.get(name) for column in columns]
    trials["code_hash"] = "c0de"
    trials["cell_id"] = [
        trial_id(configs[cell]) if cell in (configs or {}) else cell for cell in trials["cell"]
    ]
    trials["config_json"] = [json.dumps(column) for column in columns]
    return Results(
        sweep=sweep,
        scale=scale,
        title="t",
        claim="c",
        view=trials[RUN],
        trials=trials,
        checkpoint="last",
        evaluation=evaluation,
        all_evaluation=evaluation,
        reports=pd.DataFrame(columns=[*RUN, "step", "loss"]),
    )


def make_world(sweep: str, share: Callable[[str, int, int | None, bool], float]) -> Results:
    """A whole sweep at paper scale with its own cells and lengths, of pairs a few. share: exact
    match of a cell at a length and a second length; the last argument says whether that length was
    trained.
    """
    rows, configs = [], {}
    for order, cell in enumerate(find_sweep(sweep).cells("paper")):
        config = configs[cell.label] = cell.config
        for name, lengths in evaluation_lengths(config).items():
            seconds = [n for n in config.eval.second_lengths if n in (5, 10, 15, 20, 30)]
            lengths = [n for n in lengths if not seconds or n % 5 == 0]
            pairs = itertools.product(lengths, seconds or [None])
            for length, second in pairs:
                is_trained = name == "train" and (second or 0) <= config.data.max_length
                value = share(cell.label, length, second, is_trained)
                keys = evaluation_columns("train" if is_trained else "test", length, second, value)
                for seed in range(4 if config.model.kind == "trained" else 1):
                    rows.append(run_columns(cell.label, order, seed) | keys)
    return as_results(rows, "paper", sweep, configs)


@cache
def world(sweep: str, kind: str) -> Results:
    """A sweep at paper scale, judged as laptop rows are (the comparison with published settings
    takes time): nothing right, or as published.
    """
    shares = {"broken": lambda *_: 0.0, "published": lambda *args: published_share(sweep, *args)}
    return replace(make_world(sweep, shares[kind]), scale="laptop")


REACH = {  # longest length that the published models solve; cells not named: only what is trained
    "train_length_ablation": {"*1-10": 70, "*1-20": 135, "*": 200},
    "encoding_ablation": {"coupling*": 200, "index hints": 50},
    "depth_ablation": {"coupling, *": 200},
    "format_ablation": {"padded, *": 200},
    "five_hundred_digits": {"*1-160": 500, "*": 300},
    "rope_ablation": {"coupled*times*": 100},
    "multiplication_depth": {"coupling, 1*": 10, "coupling*": 90, "theory*": 200},
    "operands_ablation": {"coupling, 1*": 100, "coupling*": 90},
    "copy_reverse": {"*coupling*": 300, "*, 1 layer": 10},
    "minesweeper": {"shared*": 13, "separate*": 10, "NoPE": 6},
    "scratchpad_addition": {"scratchpad, coupling*": 30, "scratchpad*": 16, "no*": 5},
    "scratchpad_multiplication": {"scratchpad, coupling": 20},
    "thousand_digits": {"*": 1000},
    "theory_limits": {"theory, P=8*": 254, "theory, P=7*": 126, "NoPE*": 2, "*": 200},
}
SPECIAL = {  # (sweep, cell, length): exact match
    ("minesweeper", "shared table", 14): 0.9,
    ("depth_ablation", "coupling, 6 layers", 200): 0.93,
}


def published_share(sweep: str, cell: str, length: int, second: int | None, trained: bool) -> float:
    named = next((n for p, n in REACH[sweep].items() if fnmatchcase(cell, p)), None)
    if (sweep, cell, length) in SPECIAL:
        return SPECIAL[sweep, cell, length]
    if named is None:
        return 0.99 if trained else 0.0
    if cell.startswith("theory"):
        return float(length <= named)
    return 0.99 if max(length, second or 0) <= named else 0.0
