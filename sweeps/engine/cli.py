"""The command line of every sweep script: plan, run what is missing, redraw table and figure."""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from sweeps.engine.attempt import Outcome, Settings
from sweeps.engine.plan import Plan, format_plan, format_seconds, make_plan, predict_wall
from sweeps.engine.progress import Progress
from sweeps.engine.spec import SCALES, Sweep
from sweeps.engine.store import Store

INTERRUPTED, FAILED, REFUSED = 130, 1, 2


def main(sweep: Sweep, argv: Sequence[str] | None = None) -> int:
    """Run a sweep from the command line. Exit codes: 0 all trials finished, 1 some failed, 2
    refused, 130 interrupted.
    """
    options = _parse(sweep, argv)
    try:
        return _main(sweep, options)
    except ValueError as error:
        print(f"{sweep.name}: {error}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        print(
            "\ninterrupted; finished trials are stored, the same command continues", file=sys.stderr
        )
        return INTERRUPTED


def _parse(sweep: Sweep, argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=f"{sweep.name}.py",
        description=sweep.claim,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--scale", choices=SCALES, default="laptop", help="size of the experiment (default: laptop)"
    )
    add("--seeds", help="replicates: a count like 3, or model seeds x data seeds like 4x2")
    add(
        "--plan",
        action="store_true",
        help="show the trials, their predicted duration and cost; run nothing",
    )
    add("--executor", choices=("ray", "inline"), default="ray", help="default: ray")
    add(
        "--results",
        default=None,
        help="folder of the results (default: $PCORE_RESULTS, else ./results)",
    )
    add(
        "--ray-address",
        default=None,
        help="cluster to join (default: $RAY_ADDRESS, else an embedded one)",
    )
    add("--device", default="cpu", help="cpu or cuda (default: cpu)")
    add(
        "--cpus-per-trial", type=float, default=1, help="CPU slots, and torch threads, of one trial"
    )
    add("--gpus-per-trial", type=float, default=None, help="default: 1 with --device cuda, else 0")
    add("--time-limit", type=parse_duration, help="of one trial, e.g. 90s, 20m, 3h")
    add("--slice", type=parse_duration, help="inline only: save and stop after this long, e.g. 8m")
    add(
        "--tracking-uri",
        default=None,
        help="MLflow (default: $MLFLOW_TRACKING_URI, else SQLite in the results)",
    )
    add("--no-report", action="store_true", help="do not draw table and figure at the end")
    add("--no-mlflow", action="store_true", help="do not mirror to MLflow")
    return parser.parse_args(argv)


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


def _main(sweep: Sweep, options: argparse.Namespace) -> int:
    if options.slice and options.executor != "inline":
        raise ValueError("--slice needs --executor inline")
    _check_device(options.device)
    store = Store(find_results(options.results))
    num_slots = _guess_slots(options)
    if options.plan:
        print(
            format_plan(
                make_plan(sweep, options.scale, options.seeds, store, options.device), num_slots
            )
        )
        return 0
    began = time.time()
    plan = make_plan(sweep, options.scale, options.seeds, store, options.device)
    store.prepare()
    store.write_view(view_rows(plan))
    print(f"{sweep.name} [{options.scale}]: {sweep.title}")
    print(f"results: {store.root}")
    pending = plan.to_run
    num_trials = len(plan.trials)
    print(f"{num_trials} trials, {num_trials - len(pending)} finished, {len(pending)} to run")
    mirror = _start_mirror(plan, store, options)
    if pending:
        wall = predict_wall(pending, num_slots)
        print(f"predicted: {format_seconds(wall)} on {num_slots} slots", flush=True)
        _execute(plan, store, options, num_slots, mirror.add if mirror else lambda name: None)
    code = _report(plan, store, options)
    if mirror is not None and (problem := mirror.close(report_folder(plan, store))):
        print(
            f"MLflow mirror incomplete ({problem}); the rows in {store.root} are complete",
            file=sys.stderr,
        )
    if pending:
        print(f"sweep finished after {format_seconds(time.time() - began)}")
    return code


def find_results(option: str | None) -> Path:
    """The results folder: the option, $PCORE_RESULTS, ./results; in a Ray job ~/pcore-results,
    since a job's folder is temporary.
    """
    if chosen := option or os.environ.get("PCORE_RESULTS"):
        return Path(chosen).expanduser().absolute()
    here = Path.cwd()
    if "working_dir_files" in here.parts or os.environ.get("RAY_JOB_SUBMISSION_ID"):
        return Path.home() / "pcore-results"
    return here / "results"


def view_rows(plan: Plan) -> list[dict[str, object]]:
    """The rows of the view of a plan: which trial belongs to which cell."""
    labels = list(dict.fromkeys(planned.trial.cell.label for planned in plan.trials))
    return [
        {
            "sweep": plan.sweep.name,
            "scale": plan.scale,
            "title": plan.sweep.title,
            "claim": plan.sweep.claim.strip(),
            "cell": planned.trial.cell.label,
            "cell_order": labels.index(planned.trial.cell.label),
            "trial_id": planned.trial.id,
            "seed": planned.trial.config.seed,
            "data_seed": planned.trial.config.data_seed,
        }
        for planned in plan.trials
    ]


def report_folder(plan: Plan, store: Store) -> Path:
    """Where table and figure of a sweep are written."""
    return store.root / "reports" / f"{plan.sweep.name}-{plan.scale}"


def _check_device(device: str) -> None:
    if device == "cpu":
        return
    import torch

    if not device.startswith("cuda"):
        raise ValueError(f"--device {device!r} is neither cpu nor cuda")
    if not torch.cuda.is_available():
        raise ValueError(f"--device {device}: torch {torch.__version__} sees no GPU here")


def _guess_slots(options: argparse.Namespace) -> int:
    """Trials that run at once on this machine; a cluster is counted once it is joined."""
    if options.executor == "inline":
        return 1
    return max(1, int((os.cpu_count() or 1) // options.cpus_per_trial))


def _start_mirror(plan: Plan, store: Store, options: argparse.Namespace):
    if options.no_mlflow:
        return None
    from sweeps.engine.tracking import Mirror, local_uri

    uri = options.tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or local_uri(store)
    return Mirror(plan, store, uri)


def _execute(
    plan: Plan,
    store: Store,
    options: argparse.Namespace,
    num_slots: int,
    mirror: Callable[[str], None],
) -> None:
    settings = Settings(
        results=str(store.root),
        device=options.device,
        num_threads=max(1, int(options.cpus_per_trial)),
        time_limit=options.time_limit,
        slice_end=time.time() + options.slice if options.slice else None,
    )

    def on_finish(outcome: Outcome) -> None:
        if outcome.status != "paused":
            mirror(outcome.trial_id)

    name, pending = f"{plan.sweep.name} [{plan.scale}]", plan.to_run
    if options.executor == "inline":
        from sweeps.engine.inline import run_inline

        with Progress(name, pending, 1) as progress:
            run_inline(pending, settings, progress, on_finish)
        return
    from sweeps.engine.run import Slots, ray_session, run_on_ray

    gpus = options.gpus_per_trial
    if gpus is None:
        gpus = 1.0 if options.device.startswith("cuda") else 0.0
    address = options.ray_address or os.environ.get("RAY_ADDRESS")
    slots = Slots(cpus=options.cpus_per_trial, gpus=gpus)
    with (
        ray_session(address, slots, str(store.root)) as num_slots,
        Progress(name, pending, num_slots) as progress,
    ):
        run_on_ray(pending, settings, progress, on_finish, slots)


def _report(plan: Plan, store: Store, options: argparse.Namespace) -> int:
    """Draw table and figure with the command that anyone can repeat, and say what failed."""
    command = [
        "-m",
        "analysis",
        "table",
        plan.sweep.name,
        "--scale",
        plan.scale,
        "--results",
        str(store.root),
    ]
    failed = False
    if not options.no_report:
        print(flush=True)
        failed = subprocess.run([sys.executable, *command], check=False).returncode != 0
    print(f"\nredraw: python {' '.join(command)}", flush=True)
    visible = store.visible()
    for planned in plan.trials:
        shard = visible.get(planned.trial.id)
        status = shard.status if shard else "not finished"
        if status != "ok":
            failed = failed or status != "diverged"  # a result: it counts as 0 in the table
            label, seed = planned.trial.cell.label, planned.trial.config.seed
            print(f"{status}: {label}, seed {seed} ({planned.trial.id})")
        if status == "error":
            row = store.load([planned.trial.id], record="trial").to_pylist()[0]
            print("    " + str(row["error"]).strip().replace("\n", "\n    "))
    return FAILED if failed else 0
