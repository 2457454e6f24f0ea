"""`pcore train`: trains one configuration, with any field as a flag; can be stopped and resumed."""

import argparse
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from threading import Event
from typing import Any

import torch

from pcore.checkpoint import is_model_of, pack_state, save_model, unpack_state
from pcore.cli.models import choose_device, delayed_interrupt, set_threads
from pcore.cli.parser import (
    FAILED,
    Parser,
    add_device,
    add_fields,
    command_parser,
    given_fields,
)
from pcore.cli.show import find_task
from pcore.cli.text import align, format_seconds
from pcore.config import GROUPS, TrialConfig, flatten, known_fields, override, own_code, trial_id
from pcore.conformance import require_sound
from pcore.diagnosis.causes import percent
from pcore.evaluation import LengthResult, evaluation_lengths
from pcore.files import write_file
from pcore.model import make_model
from pcore.registry import describe_error, nearest
from pcore.tasks import Task
from pcore.theory.exactness import make_constructed
from pcore.training import Diverged, Report
from pcore.training import train as train_trial
from pcore.validation import validate

HELP = """\
Any field of the configuration is a flag by its dotted name (--model.num_layers 2,
--position.encoding none, --task.name addition --no-task.zero_pad), or by its last part
if that is unique (--num-layers 2). Lengths: 12, 1-10, 5-200:5 or a comma-separated list.
Ctrl-C saves the state beside OUT; the same command resumes from it."""

SMALL = {
    "model.num_heads": 2,
    "model.d_model": 64,
    "model.d_head": 32,
    "model.d_ff": 128,
    "data.max_length": 2,
    "data.num_examples": None,
    "optim.learning_rate": 3e-3,
    "optim.num_steps": 1000,
    "optim.batch_size": 128,
    "position.max_position": 8,
    "eval.test_lengths": "3-5",
    "eval.num_examples": 200,
}
SAVE_SECONDS = 60.0  # between two saved states
SECONDS_BETWEEN_LINES = 0.2  # of progress
PRESETS = {"published": {}, "small": SMALL}  # addition of 1-30 digits; of 1-2 in a few seconds


def train(words: list[str]) -> int:
    """Train with progress output, from the start or from a saved state."""
    args, config = _read(words)
    out: Path = args.out or Path("checkpoints") / f"{trial_id(config)}.pt"
    state_file = out.with_name(f"{out.stem}.state.pt")
    for file in (out, state_file):
        if file.is_dir():
            raise ValueError(f"{file} is a folder, not a file")
    if out.exists() and not is_model_of(out.read_bytes(), str(out), config):
        raise ValueError(f"{out} is the model of another trial: choose another file or remove it")
    device = choose_device(args.device)
    set_threads(config)
    validate(config)
    require_sound(config, device.type)
    with delayed_interrupt() as interrupted:
        try:
            report = _run(config, device, state_file, interrupted)
        except Diverged as error:
            print(f"pcore: {error}", file=sys.stderr)
            return FAILED
        except Exception as error:
            if not (own := own_code(flatten(config))):
                raise
            names = ", ".join(name for names in own.values() for name in names)
            raise ValueError(f"{names}: {describe_error(error)}") from error
        if report.finished:
            print(format_results(report.results))
            if PRESETS[args.preset] is SMALL:
                print("Preset small is meant to show that training runs, not what can be learned.")
            _save_checkpoints(report, config, out)
            state_file.unlink(missing_ok=True)
    return 0


def _read(words: list[str]) -> tuple[argparse.Namespace, TrialConfig]:
    """The options of a command line, and the trial that they make of a preset."""
    parser = command_parser("train", HELP)
    add = parser.add_argument
    add("--preset", default="published", help=f"{', '.join(PRESETS)} (default: published)")
    add_device(parser, default=None)
    add("--out", type=Path, help="model file (default: checkpoints/TRIAL.pt)")
    add("--task", help="short for --task.name")
    fields = known_fields(_find_task(words))
    add_fields(parser, fields, flatten(TrialConfig()))
    args = parser.parse_args(words)
    changes = given_fields(args, fields)
    if args.preset not in PRESETS:
        raise ValueError(f"unknown preset {args.preset!r}.{nearest(args.preset, PRESETS)}")
    if args.task:
        changes["task.name"] = args.task
    return args, override(override(TrialConfig(), PRESETS[args.preset]), changes)


def _find_task(words: list[str]) -> type[Task]:
    """The task that a command line names: it decides what fields a trial has."""
    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--task", "--task.name", "--name")
    return find_task(parser.parse_known_args(words)[0].task or "addition")


def _run(config: TrialConfig, device: torch.device, state_file: Path, interrupted: Event) -> Report:
    """The last report of a trial, not finished after Ctrl-C. Resumes `state_file` if it exists."""
    print(format_trial(config, device))
    state = _find_state(state_file, config)
    first_step = 0 if state is None else int(state["step"])
    if first_step:
        print(f"resuming at step {first_step} from {state_file}")
    report_every = 1 if device.type == "cpu" else 20
    line, saved_at, report = ProgressLine(first_step), time.monotonic(), None
    for report in train_trial(config, device=device, state=state, report_every=report_every):
        if report.finished:
            break
        if not report.results:
            line.show(report)
        trained = report.step == report.num_steps and not report.results
        if interrupted.is_set() or trained or time.monotonic() - saved_at >= SAVE_SECONDS:
            write_file(state_file, pack_state(config, report.state()))
            saved_at = time.monotonic()
        if interrupted.is_set():
            evaluated = f", evaluated {len(report.results)} times" if report.results else ""
            print(f"\nstopped at step {report.step}{evaluated}; state saved in {state_file}")
            print("run the same command to resume")
            break
        if trained:
            num_lengths = sum(map(len, evaluation_lengths(config).values()))
            print(f"evaluation at {num_lengths} lengths")
    assert report is not None
    return report


def _save_checkpoints(report: Report, config: TrialConfig, out: Path) -> None:
    """Write the evaluated weights: the first policy to `out`, others beside it under their name."""
    for number, (policy, weights) in enumerate(report.checkpoints.items()):
        file = out.with_name(f"{out.stem}.{policy}{out.suffix}") if number else out
        save_model(file, config, weights)
        print(f"model ({policy}): {file}")


def _find_state(file: Path, config: TrialConfig) -> dict[str, Any] | None:
    if not file.exists():
        return None
    if (state := unpack_state(file.read_bytes(), config)) is None:
        raise ValueError(
            f"{file} is damaged or belongs to another trial than {trial_id(config)}: "
            "choose another file or remove it"
        )
    return state


def format_trial(config: TrialConfig, device: torch.device) -> str:
    """The whole configuration, one line per group, and the number of parameters."""
    groups: dict[str, list[str]] = {group: [] for group in ("task", *GROUPS, "seeds")}
    for name, value in flatten(config).items():
        group, _, leaf = name.rpartition(".")
        groups[group or "seeds"].append(f"{leaf}={value}")
    make = make_constructed if config.model.kind == "constructed" else make_model
    num_parameters = sum(p.numel() for p in make(config).parameters())
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
            right, count = r.counts.num_correct, r.counts.num_examples
            cells = [f"  {r.range}", str(r.length), str(r.second_length or "")]
            rows.append([*cells, percent(right / count), f"{right} of {count}"])
        if all(r.second_length is None for r in measured):
            rows = [[*row[:2], *row[3:]] for row in rows]
        lines += align(rows)
    return "\n".join(lines)


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
