"""Checks that user code (encoding, task, attention, mixer) follows the rules the rest relies on.

`check("encoding", "package.module:Class")` and its like return one `Check` per rule; nothing is
raised and nothing printed. `format_checks` makes the report. A second or two on one core.
`require_sound` raises if a model with own code would be measured wrongly.
"""

import itertools
import sys
from collections.abc import Iterable
from functools import cache, partial

import torch

from pcore.config import OWN_CODE, TrialConfig, flatten, own_code
from pcore.conformance.bench import Check, format_checks, run_checks
from pcore.conformance.parts import PARTS, SOUND, PartBench, trial_bench
from pcore.conformance.tasks import NEEDED, RULES, TaskBench, expect_answer
from pcore.evaluation import evaluation_lengths
from pcore.registry import describe_error

__all__ = ["Check", "check", "format_checks", "require_sound"]

MOST_TOKENS = 400  # of a row with which the model of a trial is checked


def check(kind: str, name: str, answers: Iterable[tuple[str, str]] = ()) -> list[Check]:
    """Every rule for a class of a kind: an encoding, attention or mixer, or a task with its
    default options.

    answers: queries of a task and the responses that they should have, as tokens stand; a rule for
    each.
    """
    if kind != "task":
        field = next(field for field, known in OWN_CODE.items() if known == kind)
        return run_checks(PartBench(field, name), *PARTS[field])
    expected = {
        f"{query}={answer}": partial(expect_answer, query=query, expected=answer)
        for query, answer in answers
    }
    return run_checks(TaskBench(name), NEEDED, RULES | expected)


def require_sound(config: TrialConfig, device: str = "cpu") -> None:
    """Raise ValueError if the model of a trial has an encoding, attention or mixer of the user's
    own and cannot run, or breaks a rule without which its numbers would be false (`SOUND`).

    A model that sees the future answers at any length: evaluation shows it the right answer. What
    runs on the device alone is not checked, which is printed.
    """
    own = {f: names for f, names in own_code(flatten(config)).items() if f in PARTS}
    if own and config.model.kind == "trained":
        lengths = itertools.chain([config.data.max_length], *evaluation_lengths(config).values())
        second = max(config.eval.second_lengths, default=None)
        num_tokens = min(MOST_TOKENS, config.task.num_tokens(max(lengths), second))
        named = " and ".join(f"{OWN_CODE[f]} {name!r}" for f in own for name in own[f])
        model = TrialConfig(task=config.task, position=config.position, model=config.model)
        _require_sound(model, num_tokens, named, device)


@cache
def _require_sound(config: TrialConfig, num_tokens: int, named: str, device: str) -> None:
    with torch.random.fork_rng():
        try:
            bench = trial_bench(config, num_tokens)
        except Exception as error:
            if device.startswith("cpu"):
                raise ValueError(f"{named}: {describe_error(error)}") from error
            print(f"not checked on the CPU: {named}: {describe_error(error)}", file=sys.stderr)
            return
        checks = run_checks(bench, {}, SOUND)
    for found in checks:
        if not found.passed:
            raise ValueError(f"{named}: its numbers would be false: {found.name}: {found.detail}")
