"""Training on a GPU: `python -m tests.benchmarks.gpu`, with torch, numpy and jaxtyping alone.

Every line is measured in this run: steps and examples per second of the headline run in float32 and
bf16, plain and compiled (with and without CUDA graphs), what its 50,000 steps will take, whether a
step waits for the device, loss curves side by side.
The exit code is 1 if a limit is missed.
"""

import contextlib
import statistics
import sys
import time
from collections.abc import Callable, Generator

import torch

from pcore import training
from pcore.config import TrialConfig
from pcore.flops import count_example_flops
from pcore.training import Run, compile_loss, learning_rate
from sweeps.baseline import addition

WARM_UP = 5  # steps, of which the first compiles and the next ones record CUDA graphs
ROUNDS = 5  # of which the median counts
HEADLINE_MINUTES = 6.0
LOSS_DIFFERENCE = 0.1  # of bf16 compiled and float32 plain: both learn the same


def record(what: str, value: str, limit: str = "") -> None:
    """Print a line of what was measured, with its unit, and the limit if there is one."""
    print(f"{what:<56}  {value:>16}  {limit}".rstrip(), flush=True)


def headline() -> TrialConfig:
    """The paper's headline run: 50,000 steps of 1,000 examples of 1-30 digits."""
    return addition("paper")


@contextlib.contextmanager
def cuda_graphs(wanted: bool) -> Generator[None]:
    """Compile with or without CUDA graphs inside the block."""
    before = dict(training.MODES)
    compile_loss.cache_clear()
    training.MODES["cuda"] = "reduce-overhead" if wanted else "default"
    try:
        yield
    finally:
        training.MODES.update(before)
        compile_loss.cache_clear()


def measure_headline(config: TrialConfig, device: str = "cuda", num_steps: int = 100) -> float:
    """Speed of every way to train the configuration; minutes that the compiled one (as `--device
    cuda` chooses it) will take for all its steps, preparation and compilation included.
    """
    rate = multiply_rate(device)
    record("matmul rate, bf16", f"{rate / 1e12:.0f} TFLOP/s")
    chosen, minutes = training.MODES["cuda"], 0.0
    for name, dtype, compile, graphs in (
        ("fp32 plain", torch.float32, False, False),
        ("bf16 plain", torch.bfloat16, False, False),
        ("bf16 compiled", torch.bfloat16, True, False),
        ("bf16 compiled, CUDA graphs", torch.bfloat16, True, True),
    ):
        with cuda_graphs(graphs):
            began = time.perf_counter()
            run = Run(config, device, compile, dtype)
            prepared = time.perf_counter() - began
            found = measure_run(run, num_steps)
        describe_run(name, run, found, rate)
        if compile and graphs == (chosen == "reduce-overhead"):
            minutes = project(run, found, prepared)
        del run
    return minutes


def measure_run(run: Run, num_steps: int) -> dict[str, float]:
    """Seconds of the first steps, of a step, of making a batch; peak memory in bytes."""
    if run.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    return {
        "first": seconds_of(lambda: take_steps(run, WARM_UP), run.device),
        "step": median_seconds(lambda: take_steps(run, num_steps), run.device) / num_steps,
        "batch": median_seconds(lambda: take_batches(run, num_steps), run.device) / num_steps,
        "memory": torch.cuda.max_memory_allocated() if run.device.type == "cuda" else 0,
    }


def describe_run(name: str, run: Run, found: dict[str, float], rate: float) -> None:
    size, step = run.config.optim.batch_size, found["step"]
    record(f"{name}: training", f"{1 / step:,.1f} steps/s")
    record(f"{name}: training", f"{size / step:,.0f} examples/s")
    share = step_flops(run.config) / step / rate
    record(f"{name}: share of the bf16 matmul rate", f"{100 * share:.0f} %")
    record(f"{name}: making batches, share of a step", f"{100 * found['batch'] / step:.1f} %")
    record(f"{name}: first {WARM_UP} steps", f"{found['first']:.1f} s")
    record(f"{name}: peak memory", f"{found['memory'] / 2**20:,.0f} MiB")


def project(run: Run, found: dict[str, float], prepared: float) -> float:
    """Minutes of all steps of a run, with preparation, compilation, and the checks on which
    checkpoint policies choose.
    """
    optim, num_checks = run.config.optim, run.config.eval.num_checks
    run.step = optim.num_steps  # a check is due
    checks = num_checks * seconds_of(run.track_candidates, run.device)
    parts = {
        "preparation": prepared,
        "compilation": found["first"],
        f"{optim.num_steps:,} steps": optim.num_steps * found["step"],
        f"{num_checks} checks of candidates": checks,
    }
    for what, seconds in parts.items():
        record(f"headline run: {what}", f"{seconds / 60:.2f} min")
    total = sum(parts.values()) / 60
    record("headline run: training", f"{total:.1f} min", f"<= {HEADLINE_MINUTES:g} min")
    return total


def measure_waiting(config: TrialConfig) -> bool:
    """Whether steps inside a block of batches run without waiting for the GPU."""
    run, text = Run(config, "cuda", compile=True), "none"
    take_steps(run, WARM_UP)
    while run.data.num_taken + WARM_UP > run.data.num_batches:
        take_steps(run, 1)
    torch.cuda.set_sync_debug_mode("error")
    try:
        take_steps(run, WARM_UP)
    except RuntimeError as error:
        text = str(error).splitlines()[0]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    record(f"waits for the GPU in {WARM_UP} steps", text, "none")
    return text == "none"


def compare_curves(config: TrialConfig, device: str = "cuda", num_steps: int = 200) -> float:
    """The largest difference of the losses of bf16 compiled and float32 plain, step by step."""
    curves: list[list[float]] = []
    for dtype, compile in ((torch.float32, False), (torch.bfloat16, True)):
        run = Run(config, device, compile, dtype)
        losses = [run.update(run.data.next_batch(), warm_rate(config, i)) for i in range(num_steps)]
        curves.append([float(loss) for loss, _ in losses])
    differences = [abs(a - b) for a, b in zip(*curves, strict=True)]
    for i in [*range(0, num_steps, max(1, num_steps // 8)), num_steps - 1]:
        record(f"loss at step {i + 1}: fp32, bf16", f"{curves[0][i]:.4f}, {curves[1][i]:.4f}")
    largest = max(differences)
    place = differences.index(largest) + 1
    what, limit = f"largest difference in {num_steps} steps", f"< {LOSS_DIFFERENCE}"
    record(what, f"{largest:.4f} (step {place})", limit)
    return largest


def warm_rate(config: TrialConfig, step: int) -> float:
    """The rate of the schedule, warmed up ten times as fast: so few steps would learn nothing."""
    return learning_rate(config.optim, 10 * step)


def take_steps(run: Run, count: int) -> None:
    for _ in range(count):
        rate = learning_rate(run.config.optim, run.step)
        loss, _ = run.update(run.data.next_batch(), rate)
        run.loss_sum += loss
        run.step += 1


def take_batches(run: Run, count: int) -> None:
    for _ in range(count):
        run.data.next_batch()


def step_flops(config: TrialConfig) -> float:
    """What a step needs: the mean over trained lengths, times batch size, times 3."""
    lengths = range(config.data.min_length, config.data.max_length + 1)
    mean = statistics.mean(count_example_flops(config, length) for length in lengths)
    return 3 * config.optim.batch_size * mean


def multiply_rate(device: str, size: int | None = None) -> float:
    """Operations per second of a large matrix product in bf16."""
    size = size or (8192 if device == "cuda" else 256)
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    (a @ b).sum()
    return 20 * 2 * size**3 / median_seconds(lambda: [a @ b for _ in range(20)], a.device)


def seconds_of(work: Callable[[], object], device: torch.device) -> float:
    """Wall seconds until the device has done the work."""
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    wait()
    began = time.perf_counter()
    work()
    wait()
    return time.perf_counter() - began


def median_seconds(work: Callable[[], object], device: torch.device) -> float:
    return statistics.median(seconds_of(work, device) for _ in range(ROUNDS))


def main() -> int:
    """Measure all, print one table; 1 if a limit is missed."""
    if not torch.cuda.is_available():
        print(f"torch {torch.__version__} sees no GPU here", file=sys.stderr)
        return 2

    record("device", torch.cuda.get_device_name())
    record("torch", torch.__version__)
    is_same = compare_curves(headline()) < LOSS_DIFFERENCE
    is_fast = measure_headline(headline()) <= HEADLINE_MINUTES
    is_quiet = measure_waiting(headline())
    return int(not (is_same and is_fast and is_quiet))


if __name__ == "__main__":
    raise SystemExit(main())
