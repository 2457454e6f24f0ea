"""What `pcore attention`, `ablate`, `explain` and `reach` write on the screen."""

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path

import torch

from pcore.cli.screen import open_model
from pcore.config import coerce
from pcore.diagnosis.ablation import Ablation, ablate
from pcore.diagnosis.attention import AttentionMap, average_attention
from pcore.diagnosis.bisection import find_l95
from pcore.diagnosis.causes import percent
from pcore.diagnosis.explanation import (
    NO_PATTERN,
    align_columns,
    describe_attention,
    describe_ids,
    format_diagnosis,
    name_head,
)
from pcore.diagnosis.failures import analyse_failures
from pcore.diagnosis.patterns import Likeness
from pcore.diagnosis.probes import count_verdict_changes
from pcore.evaluation.predict import with_examples
from pcore.evaluation.test_sets import evaluation_lengths, make_test_set
from pcore.training.validate import check_test_length, task_name

NUMBERS = ("no BOS", "overlap", "at stop")  # of a pattern, behind its mass


def run_attention(
    file: Path, length: int | None, num_examples: int | None, out: Path | None, device: torch.device
) -> int:
    """Print how like the construction every head is; write the averaged matrices as JSON."""
    model, config = open_model(file, device)
    found = average_attention(model, config, length or config.data.max_length, num_examples or 1000)
    print(format_attention(found, f"{file.name}, {task_name(config.task)}"))
    if out is not None:
        out.write_text(json.dumps(found.to_json()), encoding="utf-8")
        print(f"averaged matrices: {out}")
    return 0


def run_ablation(
    file: Path, length: int | None, num_examples: int | None, device: torch.device
) -> int:
    """Print exact match without each head, sublayer and layer."""
    model, config = open_model(file, device)
    config = with_examples(config, num_examples)
    length = length or config.data.max_length
    check_test_length(config, length)
    batch = make_test_set(config, length, config.task.default_second(length))
    print(f"{file.name}: exact match of {task_name(config.task)} at length {length}")
    for row in ablate(model, batch, config):
        counts = row.counts
        share = percent(counts.num_correct / counts.num_examples)
        tokens = percent(counts.num_correct_tokens / counts.num_tokens)
        print(f"  {_name_part(row):<30}  {share:>7}   token accuracy {tokens:>7}", flush=True)
    return 0


def run_explaining(
    file: Path, length: int | None, num_examples: int | None, device: torch.device
) -> int:
    """Print why a model fails at a length, then probes of its attention, table and precision."""
    model, config = open_model(file, device)
    config = with_examples(config, num_examples)
    length = length or max((*config.eval.test_lengths, config.data.max_length))
    diagnosis = analyse_failures(model, config, length)
    print(f"{file.name}: {task_name(config.task)} at length {length}")
    print(format_diagnosis(diagnosis))
    print()
    for line in describe_attention(model, config, length):
        print(line)
    for line in describe_ids(model, config, length):
        print(line)
    lost, won = count_verdict_changes(model, config, length)
    print(
        f"precision: bf16 autocast changes the verdict of {lost + won} of {diagnosis.num_examples} "
        f"examples at length {length} ({lost} right in fp32 only, {won} in bf16 only)"
    )
    return 0


def run_reaching(
    file: Path,
    lengths: str | None,
    num_examples: int | None,
    stop_error: float,
    device: torch.device,
) -> int:
    """Print the longest length with exact match above 95 %, found by bisection."""
    if not 0 <= stop_error < 1:
        raise ValueError(f"--stop-error {stop_error} must be at least 0 and below 1")
    model, config = open_model(file, device)
    config = with_examples(config, num_examples)
    evaluation = dataclasses.replace(config.eval, stop_error=stop_error)
    config = dataclasses.replace(config, eval=evaluation)
    asked = [length for values in evaluation_lengths(config).values() for length in values]
    if lengths is not None:
        asked = list(coerce(lengths, tuple[int, ...], "--lengths"))
    longest, visited = find_l95(model, config, asked)
    print(f"{file.name}: {task_name(config.task)}")
    for result in visited:
        counts = result.counts
        share = percent(counts.num_correct / counts.num_examples)
        of = f"{counts.num_correct} of {counts.num_examples}"
        print(f"  length {result.length:>4}  exact match {share:>7}  {of:>15}")
    bound = "at least " if longest == max(asked) else ""
    print(
        f"L95: {bound}{longest}, from {len(visited)} of {len(set(asked))} lengths, if exact match "
        "does not rise with length"
    )
    return 0


def format_attention(found: AttentionMap, title: str) -> str:
    """A row per head and level of IDs, and the baseline of even attention."""
    left_out = f" ({found.num_left_out} of another layout left out)" if found.num_left_out else ""
    lines = [
        f"{title}: attention at length {found.length}, {found.num_examples} examples{left_out}",
        f"averaged over the {len(found.labels) - found.first_query} queries from '=' on; logits "
        f"times {found.factor:g}, as in evaluation",
        "",
    ]
    rows = [["head", "BOS", "keys", "largest"]]
    if found.even:
        rows[0] += ["level", *("next", *NUMBERS), *("same", *NUMBERS)]
    for head in found.heads:
        own = [name_head(head, found), f"{head.bos:.3f}"]
        own += [f"{math.exp(head.entropy):.1f}", f"{head.largest:.3f}"]
        rows += [own + likeness for likeness in _levels(head.likenesses) or [[]]]
    rows += [["even", "", "", "", *likeness] for likeness in _levels(found.even)]
    lines += align_columns(rows)
    if not found.even:
        return "\n".join([*lines, "", NO_PATTERN])
    most = {like.pattern: f"{like.most_beyond_bos:.3f}" for like in found.even}
    lines += [
        "",
        "next: BOS and the tokens with the ID of the symbol to be written; same: BOS and those",
        "with the ID of the current one (arXiv 2405.20671, Theorem 5.1). no BOS: the mass without",
        f"BOS, at most {most['next']} and {most['same']}. overlap: 1 = even weights on exactly",
        "these keys. at stop: mass of the last query alone. keys: e to the entropy. even: all",
        "visible tokens alike.",
    ]
    return "\n".join(lines)


def _levels(likenesses: Sequence[Likeness]) -> list[list[str]]:
    """Per level: its name and the numbers of both patterns."""
    rows: dict[str, list[str]] = {}
    for like in likenesses:
        numbers = (like.mass, like.mass_beyond_bos, like.overlap, like.mass_at_stop)
        rows.setdefault(like.level, [like.level]).extend(f"{n:.3f}" for n in numbers)
    return list(rows.values())


def _name_part(row: Ablation) -> str:
    if row.part == "nothing":
        return "the whole model"
    if row.part == "layer":
        return f"without layer {row.layer + 1}"
    what = f"head {row.head + 1}" if row.part == "head" else row.part
    return f"without layer {row.layer + 1}, {what}"
