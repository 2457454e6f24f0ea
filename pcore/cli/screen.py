"""What `pcore train` and `pcore solve` write on the screen, and when they save."""

import signal
import sys
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import torch

from pcore.cli.example import align_rows
from pcore.cli.parser import INTERRUPTED
from pcore.config import GROUPS, TrialConfig, flatten, override, trial_id
from pcore.evaluation.evaluate import LengthResult
from pcore.evaluation.generate import Solution, solve
from pcore.evaluation.test_sets import evaluation_lengths
from pcore.model.checkpoint import load_model, load_state, save_model, save_state
from pcore.model.transformer import Transformer, make_model
from pcore.training.train import Report, train
from pcore.training.validate import validate

SECONDS_BETWEEN_LINES = 0.2
SMALL = 256  # d_model up to which one thread is fastest

SMOKE = {
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
PRESETS = {"published": {}, "smoke": SMOKE}


def preset(name: str) -> TrialConfig:
    """published: the defaults, addition of 1-30 digits. smoke: 1-2 digits in a few seconds."""
    return override(TrialConfig(), PRESETS[name])


def choose_device(name: str | None) -> torch.device:
    """The device of that name, or a GPU if there is one. Raises ValueError if it is not there."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=(device := torch.device(name)))
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ValueError(f"device {name!r} is not available here") from error
    return device


def set_threads(number: int | None, config: TrialConfig) -> None:
    """Use that many threads; one for small models, which more threads make slower."""
    if number is not None and number < 1:
        raise ValueError(f"--threads {number} is below 1")
    if number is None and config.model.d_model > SMALL:
        return
    torch.set_num_threads(number or 1)


# Training -------------------------------------------------------------------------------------


def run_training(
    config: TrialConfig, device: torch.device, out: Path, state_file: Path, save_every: float
) -> int:
    """Train one trial on the screen; the exit code. Goes on from `state_file` if it exists."""
    validate(config)
    print(describe(config, device))
    state = _find_state(state_file, config)
    first_step = 0 if state is None else int(state["step"])
    if first_step:
        print(f"going on from step {first_step} of {state_file}")
    report_every = 1 if device.type == "cpu" else 20
    line, saved_at, report = _ProgressLine(first_step), time.monotonic(), None
    with _stop_politely() as stop:
        for report in train(config, device=device, state=state, report_every=report_every):
            if report.finished:
                break
            if not report.results:
                line.show(report)
            trained = report.step == report.num_steps and not report.results
            if stop or trained or time.monotonic() - saved_at >= save_every:
                save_state(state_file, config, report.state())
                saved_at = time.monotonic()
            if trained and not stop:
                num_lengths = sum(map(len, evaluation_lengths(config).values()))
                print(f"evaluation at {num_lengths} lengths")
            if stop:
                evaluated = f", evaluated {len(report.results)} times" if report.results else ""
                print(f"\nstopped at step {report.step}{evaluated}; the state lies in {state_file}")
                print("to go on, give the same command again")
                return INTERRUPTED
    assert report is not None
    print(format_results(report.results))
    for file, policy in save_checkpoints(report, config, out):
        print(f"model ({policy}): {file}")
    state_file.unlink(missing_ok=True)
    return 0


def save_checkpoints(report: Report, config: TrialConfig, out: Path) -> list[tuple[Path, str]]:
    """Write the evaluated weights: the first policy to `out`, others beside it under their name."""
    steps = {r.checkpoint: r.checkpoint_step for r in report.results}
    written: list[tuple[Path, str]] = []
    for policy, weights in report.checkpoints.items():
        file = out.with_name(f"{out.stem}.{policy}{out.suffix}") if written else out
        save_model(file, config, weights, policy=policy, step=steps[policy])
        written.append((file, policy))
    return written


def describe(config: TrialConfig, device: torch.device) -> str:
    """The whole configuration, one line per group, and the number of parameters."""
    flat = flatten(config)
    num_parameters = sum(p.numel() for p in make_model(config).parameters())
    lines = [f"trial {trial_id(config)}: {num_parameters:,} parameters, on {device}"]
    for group in ("task", *GROUPS):
        values = [
            f"{name.removeprefix(group + '.')}={value}"
            for name, value in flat.items()
            if name.startswith(f"{group}.")
        ]
        lines.append(f"  {group:<9} {' '.join(values)}")
    lines.append(f"  {'seeds':<9} seed={config.seed} data_seed={config.data_seed}")
    return "\n".join(lines)


def format_results(results: Iterable[LengthResult]) -> str:
    """Exact match per length, one table for each checkpoint policy."""
    by_policy: dict[str, list[LengthResult]] = {}
    for result in results:
        by_policy.setdefault(result.checkpoint, []).append(result)
    lines: list[str] = []
    for policy, rows in by_policy.items():
        lines += ["", f"exact match, checkpoint policy {policy} (step {rows[0].checkpoint_step})"]
        has_second = any(r.second_length is not None for r in rows)
        lines.append(
            f"  range  length{'  second' if has_second else ''}  exact match  right of examples"
        )
        for r in rows:
            second = f"  {r.second_length or '':>6}" if has_second else ""
            counts = r.counts
            share = f"{100 * counts.num_correct / counts.num_examples:.1f} %"
            of = f"{counts.num_correct} of {counts.num_examples}"
            lines.append(f"  {r.range:<5}  {r.length:>6}{second}  {share:>11}  {of:>17}")
    return "\n".join(lines)


def format_time(seconds: float) -> str:
    """4 s, 3 min 20 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, hours = whole // 60, whole // 3600
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min {whole % 60} s"


class _ProgressLine:
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

    @property
    def end(self) -> str:
        """What ends a line that was left open."""
        return "\n" if sys.stdout.isatty() else ""

    def _text(self, report: Report) -> str:
        rate = (report.step - self.first_step) / max(report.seconds, 1e-9)
        left = format_time((report.num_steps - report.step) / rate)
        return (
            f"step {report.step:>{len(str(report.num_steps))}}/{report.num_steps}"
            f"  loss {report.loss:.4f}  lr {report.learning_rate:.2e}"
            f"  {rate:.3g} steps/s  {left} left"
        )


def _find_state(file: Path, config: TrialConfig):
    if not file.exists():
        return None
    state = load_state(file, config)
    if state is None:
        raise ValueError(
            f"{file} is damaged or belongs to another trial than {trial_id(config)}: "
            "name another file or remove it"
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
        print("\nstopping after this step (Ctrl-C again: at once, back to the last save)")

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


# Solving --------------------------------------------------------------------------------------


def open_model(file: Path, device: torch.device) -> tuple[Transformer, TrialConfig]:
    """The model of a checkpoint on a device. Raises ValueError if the file is not one."""
    if file.is_dir():
        found = sorted(p.name for p in file.glob("*.pt"))
        hint = f"; it holds {', '.join(found[:5])}" if found else ""
        raise ValueError(f"{file} is a folder, not a checkpoint file{hint}")
    model, config = load_model(file)
    set_threads(None, config)
    return model.to(device), config


def run_solving(file: Path, queries: Iterable[str], device: torch.device) -> int:
    """Answer queries with a trained model, next to the truth; the exit code."""
    model, config = open_model(file, device)
    num_asked = num_right = 0
    for query in queries:
        solution = solve(model, config, query)
        print(format_solution(solution), flush=True)
        num_asked, num_right = num_asked + 1, num_right + solution.is_correct
    if num_asked > 1:
        print(f"{num_right} of {num_asked} right")
    return 0


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
        verdict = "wrong: it does not stop behind the last token"
    else:
        verdict = "wrong" if solution.stopped else "wrong, and it does not stop"
        marks = ["" if a == t else "^" for a, t in zip(answer, truth, strict=True)]
        rows.append(("", marks))
    return f"{solution.query}: {verdict}\n{align_rows(rows).rstrip()}"
