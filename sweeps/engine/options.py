"""Command-line flags of everything that runs trials, and the `LaunchOptions` they become."""

import argparse
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from pcore.diagnosis import NUM_EXAMPLES
from sweeps.engine.changes import add_changes, parse_name
from sweeps.engine.executors import EXECUTORS, Executor, count_cpus
from sweeps.engine.spec import SCALES, Scale
from sweeps.engine.store.location import find_results
from sweeps.engine.store.names import FOLDERS, is_store

if TYPE_CHECKING:  # they import torch and pandas, which --help does not need
    from sweeps.engine.store.store import Store
    from sweeps.engine.trial.attempt import Compile

MAX_EXAMPLES = 1_000_000  # for analysing a model
MAX_DEVICES = 1024  # CPUs or GPUs of one trial


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchOptions:
    """The options of one launch. Raises ValueError for values that contradict each other or do not
    fit this machine.
    """

    results: str  # folder or URI
    scale: Scale
    seeds: str | None = None  # see `spec.parse_seeds`; None: the default of each sweep
    executor: Executor = field(default_factory=Executor)
    device: str = "cpu"  # cpu or cuda
    compile: "Compile" = "auto"
    diagnose: int = 0  # examples per length for analysing a finished model; 0: no analysis
    retry_errors: bool = False
    tracking_uri: str | None = None  # of MLflow; None: the default, see `mirror.target.find_target`
    mlflow: bool = True
    hooks: Sequence[str] = ()  # package.module:Class of each, see `launch.hooks`
    report: bool = True  # draw table and figure at the end

    def __post_init__(self) -> None:
        cpus = self.executor.cpus
        if self.executor.is_local and cpus > (have := count_cpus()):
            raise ValueError(f"--cpus-per-trial {cpus:g}: this machine has {have}")
        if self.device != "cpu":
            _check_gpu(self.device, here=self.executor.in_process)

    @property
    def num_threads(self) -> int:
        """torch threads of one trial."""
        return max(1, int(self.executor.cpus))


def read_options(given: argparse.Namespace) -> LaunchOptions:
    """The options of a parsed command line that has the flags of `add_results`, `add_executor` and
    `add_hooks`, and may have those of `add_size` and `add_run`: most are called as their field,
    those that depend on others are here. Raises ValueError, see `LaunchOptions`.
    """
    names = {one.name for one in fields(LaunchOptions)}
    asked = {name: value for name, value in vars(given).items() if name in names}
    gpus = 1.0 if given.device.startswith("cuda") else 0.0
    diagnose = 0 if given.scale == "smoke" else NUM_EXAMPLES
    address = given.ray_address or os.environ.get("RAY_ADDRESS")
    usual = "inline" if given.scale == "smoke" and not address else "ray"
    asked |= {
        "results": find_results(given.results),
        "executor": Executor(
            name=given.executor or usual,
            address=address,
            cpus=given.cpus_per_trial,
            gpus=gpus if given.gpus_per_trial is None else given.gpus_per_trial,
        ),
        "diagnose": diagnose if given.diagnose is None else given.diagnose,
    }
    return LaunchOptions(**asked)


def _check_gpu(device: str, here: bool) -> None:
    import torch

    if not device.startswith("cuda"):
        raise ValueError(f"--device {device!r} is neither cpu nor cuda")
    if here and not torch.cuda.is_available():
        raise ValueError(f"--device {device}: torch {torch.__version__} sees no GPU here")


def add_results(parser: argparse.ArgumentParser) -> None:
    """Add --results, the store."""
    parser.add_argument(
        "--results",
        default=None,
        help="folder or s3://bucket/prefix (default: $PCORE_RESULTS, else ./results)",
    )


def add_size(parser: argparse.ArgumentParser) -> None:
    """Add --scale, --seeds, --set and --axis, which choose the trials of a sweep."""
    parser.add_argument(
        "--scale", choices=SCALES, default="laptop", help="size of the experiment (default: laptop)"
    )
    parser.add_argument(
        "--seeds",
        help="replicates, e.g. 3, or model seeds x data seeds, e.g. 4x2; 4x2@100 counts from 100; "
        "1@5: seed 5 alone; 2,4x2@100: both",
    )
    add_changes(parser)


def add_executor(parser: argparse.ArgumentParser) -> None:
    """Add the flags for where and how trials run."""
    add = parser.add_argument
    add(
        "--executor",
        choices=EXECUTORS,
        help="default: ray; at smoke scale without a cluster: inline",
    )
    add("--ray-address", help="cluster to join (default: $RAY_ADDRESS, else an embedded one)")
    add("--device", default="cpu", help="cpu or cuda (default: cpu)")
    add(
        "--cpus-per-trial",
        type=parse_cpus,
        default=1,
        help="CPUs and torch threads of one trial",
    )
    add(
        "--gpus-per-trial",
        type=parse_gpus,
        help="0.25 puts four trials on a GPU (default: 1 with --device cuda, else 0)",
    )
    add(
        "--compile",
        choices=("auto", "on", "off"),
        default="auto",
        help="compile training steps with torch.compile; auto: on a GPU (default: auto)",
    )
    add(
        "--diagnose",
        type=parse_examples,
        metavar="N",
        help="analyse finished models (attention, causes of failure) on N examples per length; "
        f"0: no analysis (default: {NUM_EXAMPLES}, at smoke scale 0)",
    )


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `add_executor` and `add_hooks`, and those for name and retries."""
    add_executor(parser)
    add = parser.add_argument
    add(
        "--name",
        type=parse_name,
        help="of the sweep that --set and its like make",
    )
    add("--retry-errors", action="store_true", help="rerun failed trials")
    add_hooks(parser)


def add_hooks(parser: argparse.ArgumentParser) -> None:
    """Add the flags for what follows a launch: MLflow, the report, hooks."""
    add = parser.add_argument
    add(
        "--tracking-uri",
        help="of MLflow (default: $MLFLOW_TRACKING_URI, else SQLite in the results folder)",
    )
    add(
        "--no-report",
        dest="report",
        action="store_false",
        help="skip table and figures at the end",
    )
    add("--no-mlflow", dest="mlflow", action="store_false", help="skip the MLflow mirror")
    add(
        "--hook",
        dest="hooks",
        action="append",
        default=[],
        metavar="MODULE:CLASS",
        help="class to notify about every trial, e.g. sweeps.hooks.tensorboard:TensorBoard",
    )


def parse_count(text: str) -> int:
    """A number of examples above 0."""
    if parse_examples(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def parse_examples(text: str) -> int:
    """A number of examples, 0 or more."""
    if not text.isdecimal() or int(text) > MAX_EXAMPLES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number up to {MAX_EXAMPLES:,}")
    return int(text)


def parse_cpus(text: str) -> float:
    """CPUs of a trial: above 0."""
    if (cpus := parse_gpus(text)) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not above 0")
    return cpus


def parse_gpus(text: str) -> float:
    """GPUs of a trial, possibly a fraction of one."""
    number = float(text)
    if not 0 <= number <= MAX_DEVICES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to {MAX_DEVICES:,}")
    return number


def parse_duration(text: str) -> float:
    """Seconds of "90", "90s", "20m", "3h"."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1.0)
    try:
        seconds = float(number) * unit
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration like 90s, 20m or 3h")
    return seconds


def open_store(results: str | None) -> "Store":
    """The store that --results names, see `find_results`."""
    from sweeps.engine.store.store import Store

    return Store(find_results(results))


def open_existing(results: str | None) -> "Store":
    """The same, if the folder already is a store. Raises ValueError if not."""
    store = open_store(results)
    if not is_store(store.folder):
        raise ValueError(
            f"{store.root} is not a results folder: it has no {', '.join(FOLDERS[:3])}"
        )
    return store
