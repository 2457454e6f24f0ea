"""The flags of everything that runs trials, and what they mean on this machine."""

import argparse
import os
from typing import Literal

from pcore.diagnosis.mechanism import NUM_EXAMPLES
from sweeps.engine.spec import SCALES
from sweeps.engine.store.location import find_results as find_results
from sweeps.engine.store.store import Store
from sweeps.engine.trial.attempt import Settings

RAY_SECONDS = 8.0  # an embedded cluster starts, its workers import torch, and it ends


def add_place(parser: argparse.ArgumentParser) -> None:
    """--results: which store."""
    parser.add_argument(
        "--results",
        default=None,
        help="folder or s3://bucket/prefix (default: $PCORE_RESULTS, else ./results)",
    )


def add_size(parser: argparse.ArgumentParser) -> None:
    """--scale and --seeds: which trials of a sweep."""
    parser.add_argument(
        "--scale", choices=SCALES, default="laptop", help="size of the experiment (default: laptop)"
    )
    parser.add_argument(
        "--seeds", help="replicates: a count like 3, or model seeds x data seeds like 4x2"
    )


def add_executor(parser: argparse.ArgumentParser) -> None:
    """Where and how trials run."""
    add = parser.add_argument
    add("--executor", choices=("ray", "inline"), default="ray", help="default: ray")
    add("--ray-address", help="cluster to join (default: $RAY_ADDRESS, else an embedded one)")
    add("--device", default="cpu", help="cpu or cuda (default: cpu)")
    add(
        "--cpus-per-trial", type=float, default=1, help="CPU slots, and torch threads, of one trial"
    )
    add(
        "--gpus-per-trial",
        type=float,
        help="0.25 puts four trials on a GPU (default: 1 with --device cuda, else 0)",
    )
    add(
        "--stack",
        type=parse_stack,
        default=1,
        metavar="auto|off|K",
        help="train up to K trials of equal shapes as one model; auto: where a probe says that it "
        "pays (default: off)",
    )
    add(
        "--compile",
        choices=("auto", "on", "off"),
        default="auto",
        help="compile training steps with torch.compile; auto: on a GPU (default: auto)",
    )
    add("--time-limit", type=parse_duration, help="of one attempt at a trial, e.g. 90s, 20m, 3h")
    add(
        "--diagnose",
        type=int,
        metavar="N",
        help="analyse finished models (attention, causes of failure) on N examples of a length; "
        f"0 = not at all (default: {NUM_EXAMPLES}, at smoke scale 0)",
    )
    add("--slice", type=parse_duration, help="inline only: save and stop after this long, e.g. 8m")


def add_run(parser: argparse.ArgumentParser) -> None:
    """Where and how trials run, which of them, and what is done with them afterwards."""
    add_executor(parser)
    add = parser.add_argument
    add("--budget", type=parse_duration, help="run whole replicates that fit into this wall time")
    add("--retry-errors", action="store_true", help="run again what failed with an error")
    add(
        "--tracking-uri",
        help="MLflow (default: $MLFLOW_TRACKING_URI, else SQLite in the results)",
    )
    add("--no-report", action="store_true", help="do not draw table and figure at the end")
    add("--no-mlflow", action="store_true", help="do not mirror to MLflow")


def parse_count(text: str) -> int:
    """A whole number above 0."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def parse_duration(text: str) -> float:
    """Seconds of "90", "90s", "20m", "3h"."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1.0)
    try:
        seconds = float(number) * unit
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration like 90s, 20m or 3h")
    return seconds


def parse_stack(text: str) -> int | Literal["auto"]:
    """How many trials a stack may hold: "auto", "off" (1) or a number from 2 on."""
    if text == "auto":
        return "auto"
    if text == "off":
        return 1
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither auto nor off nor a number of trials from 2 on"
        )
    return int(text)


def check_run(options: argparse.Namespace) -> None:
    """Raise ValueError for flags that do not go together or do not fit this machine."""
    if options.slice and options.executor != "inline":
        raise ValueError("--slice needs --executor inline")
    if options.diagnose is not None and options.diagnose < 0:
        raise ValueError(f"--diagnose {options.diagnose} is below 0")
    if options.cpus_per_trial <= 0:
        raise ValueError(f"--cpus-per-trial {options.cpus_per_trial:g} is not above 0")
    device: str = options.device
    if device == "cpu":
        return
    import torch

    if not device.startswith("cuda"):
        raise ValueError(f"--device {device!r} is neither cpu nor cuda")
    if options.executor == "inline" and not torch.cuda.is_available():
        raise ValueError(f"--device {device}: torch {torch.__version__} sees no GPU here")


def guess_slots(options: argparse.Namespace) -> int:
    """Trials that run at once on this machine; a cluster is counted once it is joined."""
    if options.executor == "inline":
        return 1
    return max(1, int((os.cpu_count() or 1) // options.cpus_per_trial))


def count_threads(options: argparse.Namespace) -> int:
    """torch threads of one trial."""
    return max(1, int(options.cpus_per_trial))


def is_local(options: argparse.Namespace) -> bool:
    """Whether trials run on this machine, not on a cluster that is joined."""
    joined = options.ray_address or os.environ.get("RAY_ADDRESS")
    return options.executor == "inline" or not joined


def start_seconds(options: argparse.Namespace) -> float:
    """Seconds of a launch in which no trial runs: the executor starts and ends."""
    return 0.0 if options.executor == "inline" else RAY_SECONDS


def make_settings(options: argparse.Namespace, store: Store, launch: str, began: float) -> Settings:
    """How attempts run. began: `time.monotonic()` at the start of the launch."""
    diagnose = 0 if options.scale == "smoke" else NUM_EXAMPLES
    return Settings(
        results=store.root,
        device=options.device,
        num_threads=count_threads(options),
        time_limit=options.time_limit,
        slice_end=began + options.slice if options.slice else None,
        launch=launch,
        diagnose=diagnose if options.diagnose is None else options.diagnose,
        stack=options.stack,
        compile=options.compile,
    )
