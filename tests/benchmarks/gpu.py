"""Training on a GPU: `python -m tests.benchmarks.gpu`, with torch, numpy and jaxtyping alone.

Every line is measured in this run: steps and examples per second of the headline run in float32 and
bf16, plain and compiled (with and without CUDA graphs), what its 50,000 steps will take, whether a
step waits for the device, loss curves side by side.
The exit code is 1 if a limit is missed.
"""

import statistics
import sys
import time
from collections.abc import Callable
from unittest.mock import patch

import torch

from pcore import training
from pcore.config import TrialConfig
from pcore.training import Run, compile_loss, learning_rate
from sweeps.baseline import addition
from tests.benchmarks.record import record

WARM_UP = 5  # steps, of which the first compiles and the next ones record CUDA graphs
ROUNDS = 5  # of which the median counts
HEADLINE_MINUTES = 6.0
LOSS_DIFFERENCE = 0.1  # of bf16 compiled and float32 plain: both learn the same
WAYS = {  # to train: dtype, and how to compile
    "fp32 plain": (torch.float32, ""),
    "bf16 plain": (torch.bfloat16, ""),
    "bf16 compiled": (torch.bfloat16, "default"),
    "bf16 compiled, CUDA graphs": (torch.bfloat16, "reduce-overhead"),
}


def measure_headline(config: TrialConfig, device: str = "cuda", num_steps: int = 100) -> bool:
    """Speed of every way to train the configuration; whether the compiled one (as `--device cuda`
    chooses it) will take few enough minutes for all its steps, with preparation and compilation.
    """
    chosen, is_fast = training.MODES["cuda"], False
    for name, (dtype, mode) in WAYS.items():
        compile_loss.cache_clear()
        with patch.dict(training.MODES, cuda=mode):
            began = time.perf_counter()
            run = Run(config, device, bool(mode), dtype)
            prepared = time.perf_counter() - began
            first, step = measure_run(name, run, num_steps)
        if mode == chosen:
            is_fast = project(run, prepared, first, step)
        del run
    compile_loss.cache_clear()
    return is_fast


def measure_run(name: str, run: Run, num_steps: int) -> tuple[float, float]:
    """Seconds of the first steps and of each later one."""
    first = seconds_of(lambda: take_steps(run, WARM_UP), run.device)
    rounds = [seconds_of(lambda: take_steps(run, num_steps), run.device) for _ in range(ROUNDS)]
    step = statistics.median(rounds) / num_steps
    record(f"{name}: training", 1 / step, "{:,.1f} steps/s")
    record(f"{name}: training", run.config.optim.batch_size / step, "{:,.0f} examples/s")
    record(f"{name}: first {WARM_UP} steps", first, "{:.1f} s")
    return first, step


def project(run: Run, prepared: float, first: float, step: float) -> bool:
    """Whether a run will take few enough minutes: all steps with preparation, compilation, and the
    checks on which checkpoint policies choose.
    """
    optim, num_checks = run.config.optim, run.config.eval.num_checks
    run.step = optim.num_steps  # a check is due
    checks = num_checks * seconds_of(run.track_candidates, run.device)
    parts = {
        "preparation": prepared,
        "compilation": first,
        f"{optim.num_steps:,} steps": optim.num_steps * step,
        f"{num_checks} checks of candidates": checks,
    }
    for what, seconds in parts.items():
        record(f"headline run: {what}", seconds / 60, "{:.2f} min")
    total = sum(parts.values()) / 60
    return record("headline run: training", total, "{:.1f} min", most=HEADLINE_MINUTES)


def measure_waiting(config: TrialConfig) -> bool:
    """Whether steps inside a block of batches run without waiting for the GPU."""
    run, num_waits = Run(config, "cuda", compile=True), 0
    take_steps(run, WARM_UP)
    while run.data.num_taken + WARM_UP > run.data.num_batches:
        take_steps(run, 1)
    torch.cuda.set_sync_debug_mode("error")
    try:
        take_steps(run, WARM_UP)
    except RuntimeError as error:
        num_waits = 1
        print(error)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return record(f"waits for the GPU in {WARM_UP} steps", num_waits, "{}", most=0)


def compare_curves(config: TrialConfig, device: str = "cuda", num_steps: int = 200) -> bool:
    """Whether the losses of bf16 compiled and float32 plain differ little, step by step."""
    curves: list[list[float]] = []
    for dtype, compile in ((torch.float32, False), (torch.bfloat16, True)):
        run = Run(config, device, compile, dtype)
        # Warmed up ten times as fast as the schedule says: so few steps would learn nothing.
        rates = [learning_rate(config.optim, 10 * step) for step in range(num_steps)]
        losses = [run.update(run.data.next_batch(), rate) for rate in rates]
        curves.append([float(loss) for loss, _ in losses])
    for i in range(0, num_steps, max(1, num_steps // 8)):
        record(f"loss at step {i + 1}: fp32", curves[0][i], "{:.4f}")
        record(f"loss at step {i + 1}: bf16", curves[1][i], "{:.4f}")
    largest = max(abs(a - b) for a, b in zip(*curves, strict=True))
    what = f"largest difference in {num_steps} steps"
    return record(what, largest, "{:.4f}", most=LOSS_DIFFERENCE)


def take_steps(run: Run, count: int) -> None:
    for _ in range(count):
        rate = learning_rate(run.config.optim, run.step)
        loss, _ = run.update(run.data.next_batch(), rate)
        run.loss_sum += loss
        run.step += 1


def seconds_of(work: Callable[[], object], device: torch.device) -> float:
    """Wall seconds until the device has done the work."""
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    wait()
    began = time.perf_counter()
    work()
    wait()
    return time.perf_counter() - began


def main() -> int:
    """Measure all, print one table; 1 if a limit is missed."""
    if not torch.cuda.is_available():
        print(f"torch {torch.__version__} sees no GPU here", file=sys.stderr)
        return 2

    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    config = addition("paper")  # 50,000 steps of 1,000 examples of 1-30 digits
    kept = [measure(config) for measure in (compare_curves, measure_headline, measure_waiting)]
    return int(not all(kept))


if __name__ == "__main__":
    raise SystemExit(main())
