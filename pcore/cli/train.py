"""`pcore train`: trains one configuration, with any field as a flag; can be stopped and resumed."""

import signal
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from pcore.checkpoint import load_state, save_model, save_state
from pcore.cli.flags import take_flags
from pcore.cli.models import check_trial, choose_device, set_threads
from pcore.cli.own_code import find_task
from pcore.cli.parser import FAILED, INTERRUPTED, add_device, command_parser, fixed_flags
from pcore.cli.screen import ProgressLine, format_results, format_trial
from pcore.config import TrialConfig, flatten, known_fields, named_code, override, trial_id
from pcore.evaluation import evaluation_lengths
from pcore.registry import describe_error, nearest
from pcore.training import Diverged, Report
from pcore.training import train as train_trial

HELP = """\
Any field of the configuration is a flag by its dotted name (--model.num_layers 2,
--position.encoding none, --task.name addition --task.zero_pad false), or by its last part
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
# Addition of 1-30 digits; of 1-2 digits in a few seconds, which was called smoke once: at the scale
# of that name sweeps train nothing.
PRESETS = {"published": {}, "small": SMALL, "smoke": SMALL}


def train(words: list[str]) -> int:
    """Train with progress output, from the start or from a saved state."""
    defaults = [f"  --{name} {value}" for name, value in flatten(TrialConfig()).items()]
    text = "\n".join([HELP, "", "fields and their published defaults:", *defaults])
    parser = command_parser("train", text)
    parser.add_argument(
        "--preset", default="published", help=f"{', '.join(PRESETS)} (default: published)"
    )
    add_device(parser, default=None)
    parser.add_argument("--threads", type=int, help="CPU threads (default: 1 for small models)")
    parser.add_argument("--out", type=Path, help="model file (default: checkpoints/TRIAL.pt)")
    changes, rest = take_flags(words, _trial_fields(words), fixed_flags(parser))
    args = parser.parse_args(rest)
    if args.preset not in PRESETS:
        raise ValueError(f"unknown preset {args.preset!r}.{nearest(args.preset, PRESETS)}")
    if "task" in changes:
        changes["task.name"] = changes.pop("task")
    config = override(override(TrialConfig(), PRESETS[args.preset]), changes)
    out: Path = args.out or Path("checkpoints") / f"{trial_id(config)}.pt"
    state_file = out.with_name(f"{out.stem}.state.pt")
    for file in (out, state_file):
        if file.is_dir():
            raise ValueError(f"{file} is a folder, not a file")
    device = choose_device(args.device)
    set_threads(args.threads, config)
    check_trial(config, training=True)
    try:
        report = _run(config, device, state_file)
    except Diverged as error:
        print(f"pcore: {error}", file=sys.stderr)
        return FAILED
    except Exception as error:
        if not (own := named_code(config)):
            raise
        names = ", ".join(name for names in own.values() for name in names)
        raise ValueError(f"{names}: {describe_error(error)}") from error
    if not report.finished:
        return INTERRUPTED
    _print_results(report, args.preset)
    _save_checkpoints(report, config, out)
    state_file.unlink(missing_ok=True)
    return 0


def _trial_fields(words: list[str]) -> dict[str, Any]:
    """Every field that a trial of the task in `words` has; `--task NAME` is short for the name."""
    cls = type(TrialConfig().task)
    for word, after in zip(words, [*words[1:], ""], strict=False):
        flag, has_value, text = word.partition("=")
        if flag in ("--task", "--task.name", "--name"):
            cls = find_task(text if has_value else after)
    return {"task": str, **known_fields(cls)}


def _run(config: TrialConfig, device: torch.device, state_file: Path) -> Report:
    """The last report of a trial, not finished after Ctrl-C. Resumes `state_file` if it exists."""
    print(format_trial(config, device))
    state = _find_state(state_file, config)
    first_step = 0 if state is None else int(state["step"])
    if first_step:
        print(f"resuming at step {first_step} from {state_file}")
    report_every = 1 if device.type == "cpu" else 20
    line, saved_at, report = ProgressLine(first_step), time.monotonic(), None
    with _stop_politely() as stop:
        for report in train_trial(config, device=device, state=state, report_every=report_every):
            if report.finished:
                break
            if not report.results:
                line.show(report)
            trained = report.step == report.num_steps and not report.results
            if stop or trained or time.monotonic() - saved_at >= SAVE_SECONDS:
                save_state(state_file, config, report.state())
                saved_at = time.monotonic()
            if stop:
                evaluated = f", evaluated {len(report.results)} times" if report.results else ""
                print(f"\nstopped at step {report.step}{evaluated}; state saved in {state_file}")
                print("run the same command to resume")
                break
            if trained:
                num_lengths = sum(map(len, evaluation_lengths(config).values()))
                print(f"evaluation at {num_lengths} lengths")
    assert report is not None
    return report


def _print_results(report: Report, preset: str) -> None:
    print(format_results(report.results))
    if PRESETS[preset] is SMALL:
        print("Preset small is meant to show that training runs, not what can be learned.")


def _save_checkpoints(report: Report, config: TrialConfig, out: Path) -> None:
    """Write the evaluated weights: the first policy to `out`, others beside it under their name."""
    steps = {r.checkpoint: r.checkpoint_step for r in report.results}
    for number, (policy, weights) in enumerate(report.checkpoints.items()):
        file = out.with_name(f"{out.stem}.{policy}{out.suffix}") if number else out
        save_model(file, config, weights, policy=policy, step=steps[policy])
        print(f"model ({policy}): {file}")


def _find_state(file: Path, config: TrialConfig) -> dict[str, Any] | None:
    if not file.exists():
        return None
    if (state := load_state(file, config)) is None:
        raise ValueError(
            f"{file} is damaged or belongs to another trial than {trial_id(config)}: "
            "choose another file or remove it"
        )
    return state


@contextmanager
def _stop_politely() -> Generator[list[bool]]:
    """A list that is filled by the first Ctrl-C; the second one ends the program at once."""
    stop: list[bool] = []

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        if stop:
            raise KeyboardInterrupt
        stop.append(True)
        print("\nstopping after this step (press Ctrl-C again to stop now, without saving)")

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
