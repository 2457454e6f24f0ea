"""Terminal output of commands: examples, a trial, its progress, results, answers."""

import sys
import time
from collections.abc import Iterable, Sequence

import torch

from pcore.cli.text import align, format_seconds
from pcore.config import GROUPS, TrialConfig, flatten, trial_id
from pcore.decoding import Solution
from pcore.diagnosis.causes import percent
from pcore.evaluation import LengthResult
from pcore.model import make_model
from pcore.training import Report

SECONDS_BETWEEN_LINES = 0.2


def align_labelled(rows: Sequence[tuple[str, list[str]]], width: int | None = None) -> str:
    """Labelled rows of equally many cells, in blocks at most `width` wide (None = one block)."""
    room = (width or sys.maxsize) - max(len(label) for label, _ in rows) - 1
    blocks, used = [list[int]()], 0
    for column, cells in enumerate(zip(*(cells for _, cells in rows), strict=True)):
        wide = 1 + max(map(len, cells))
        if blocks[-1] and used + wide > room:
            blocks, used = [*blocks, []], 0
        blocks[-1].append(column)
        used += wide
    tables = ([[f"{label} ", *(cells[i] for i in b)] for label, cells in rows] for b in blocks)
    return "\n\n".join("\n".join(align(table, gap=" ")) for table in tables)


def format_share(num_right: int, num_examples: int) -> list[str]:
    """Two cells of a table, such as "98.7 %" and "987 of 1000"."""
    return [percent(num_right / num_examples), f"{num_right} of {num_examples}"]


def format_trial(config: TrialConfig, device: torch.device) -> str:
    """The whole configuration, one line per group, and the number of parameters."""
    groups: dict[str, list[str]] = {group: [] for group in ("task", *GROUPS, "seeds")}
    for name, value in flatten(config).items():
        group, _, leaf = name.rpartition(".")
        groups[group or "seeds"].append(f"{leaf}={value}")
    num_parameters = sum(p.numel() for p in make_model(config).parameters())
    lines = [f"trial {trial_id(config)}: {num_parameters:,} parameters, on {device}"]
    return "\n".join([*lines, *(f"  {group:<9} {' '.join(v)}" for group, v in groups.items())])


def format_results(results: Iterable[LengthResult]) -> str:
    """Exact match per length, one table for each checkpoint policy."""
    by_policy: dict[str, list[LengthResult]] = {}
    for result in results:
        by_policy.setdefault(result.checkpoint, []).append(result)
    lines: list[str] = []
    for policy, measured in by_policy.items():
        lines += [
            "",
            f"exact match, checkpoint policy {policy} (step {measured[0].checkpoint_step})",
        ]
        rows = [["  range", "length", "second", "exact match", "right of examples"]]
        for r in measured:
            share = format_share(r.counts.num_correct, r.counts.num_examples)
            rows.append([f"  {r.range}", str(r.length), str(r.second_length or ""), *share])
        if all(r.second_length is None for r in measured):
            rows = [[*row[:2], *row[3:]] for row in rows]
        lines += align(rows)
    return "\n".join(lines)


def format_solution(solution: Solution) -> str:
    """The answer over the truth, wrong tokens marked; they stand as tokens, so often reversed."""
    answer, truth = list(solution.response), list(solution.truth)
    width = max(len(answer), len(truth))
    answer += [""] * (width - len(answer))
    truth += [""] * (width - len(truth))
    rows = [("  answer", answer), ("  truth", truth)]
    if solution.is_correct:
        verdict = "right"
    elif answer == truth:
        verdict = "wrong: it does not stop after the last token"
    else:
        verdict = "wrong" if solution.stopped else "wrong, and it does not stop"
        marks = ["" if a == t else "^" for a, t in zip(answer, truth, strict=True)]
        rows.append(("", marks))
    return f"{solution.query}: {verdict}\n{align_labelled(rows).rstrip()}"


class ProgressLine:
    """One line that changes on a terminal; elsewhere a line for every tenth of the steps."""

    def __init__(self, first_step: int):
        self.first_step, self.last_step = first_step, first_step
        self.shown_at, self.width = -1.0, 0

    def show(self, report: Report) -> None:
        done, tenths = report.step == report.num_steps, 10 * report.step // report.num_steps
        if sys.stdout.isatty():
            if done or time.monotonic() - self.shown_at >= SECONDS_BETWEEN_LINES:
                text = self._text(report)
                print(f"\r{text:<{self.width}}", end="\n" if done else "", flush=True)
                self.shown_at, self.width = time.monotonic(), len(text)
        elif tenths > 10 * self.last_step // report.num_steps:
            print(self._text(report), flush=True)
        self.last_step = report.step

    def _text(self, report: Report) -> str:
        rate = (report.step - self.first_step) / max(report.seconds, 1e-9)
        left = format_seconds((report.num_steps - report.step) / rate)
        return (
            f"step {report.step:>{len(str(report.num_steps))}}/{report.num_steps}"
            f"  loss {report.loss:.4f}  lr {report.learning_rate:.2e}"
            f"  {rate:.3g} steps/s  {left} left"
        )
