"""A tiny sweep that is run as a process of its own and saves a state at every report, with faults
planted by environment variables.

Only this script reads the variables, the engine knows nothing of them:

    FAULT_ARMS=8            cells; each has --seeds trials
    FAULT_STEPS=120         training steps of a trial
    FAULT_SLOW=0.2          seconds that every report takes longer
    FAULT_POISON=arm1       cells that raise an error, always
    FAULT_WILD=arm2         cells that diverge
    FAULT_OOM=1             attempts at every trial that run out of memory before one does not
    FAULT_FULL=5            the disk is full from the 5th write of a file on
    FAULT_KILL=12,before    SIGKILL itself before (or after, or amid) its 12th write of a file
    FAULT_COUNT=FILE        where the number of writes so far is noted
    FAULT_LOOSE=5           shards from which on they are packed
    FAULT_PATIENCE=8        seconds that the end of a launch waits for a silent mirror
"""

import errno
import functools
import os
import signal
import time
from collections import Counter
from pathlib import Path

import torch

from pcore.config import override
from sweeps.baseline import addition
from sweeps.engine.launch import scheduler
from sweeps.engine.launch.cli import main
from sweeps.engine.launch.mirror import target
from sweeps.engine.spec import Sweep, arms, grid
from sweeps.engine.store import store
from sweeps.engine.store.folder import Folder
from sweeps.engine.trial import attempt

SMALL = {
    "model.d_model": 16,
    "model.num_heads": 1,
    "model.d_head": 16,
    "model.d_ff": 16,
    "optim.batch_size": 4,
    "data.num_examples": None,
    "eval.num_examples": 4,
    "eval.train_lengths": "1",  # the state is saved after every evaluated length
    "eval.test_lengths": "5",
}


def fault(name: str, default: str = "") -> str:
    return os.environ.get(f"FAULT_{name}", default)


def make_sweep() -> Sweep:
    """`FAULT_ARMS` cells that differ in their learning rate."""
    count, wild = int(fault("ARMS", "4")), fault("WILD").split(",")
    base = override(addition("smoke"), SMALL | {"optim.num_steps": int(fault("STEPS", "120"))})
    points = {f"arm{i}": {"optim.learning_rate": 1e-3 + 1e-5 * i} for i in range(count)}
    for label in points.keys() & set(wild):
        points[label] = {"optim.learning_rate": 1e3, "optim.weight_decay": 1e3}
    return Sweep(
        name="faulty",
        title="Tiny trials among faults",
        claim="A claim.",
        cells=lambda scale: grid(base, arm=arms(points)),
        seeds={"smoke": "2", "laptop": "2", "paper": "2"},
    )


def plant() -> None:
    """The faults that the environment asks for."""
    train, starts = attempt.train, Counter()

    def slow_train(config, **options):
        rate = config.optim.learning_rate
        if any(p and rate == 1e-3 + 1e-5 * int(p[3:]) for p in fault("POISON").split(",")):
            raise RuntimeError("planted \udcff")
        starts[config] += 1
        if starts[config] <= int(fault("OOM", "0")):
            raise RuntimeError("planted: out of memory")  # as torch on a CPU
        for report in train(config, **options):
            if not report.results:
                time.sleep(float(fault("SLOW", "0")))
            yield report

    scheduler.Settings = functools.partial(attempt.Settings, checkpoint_every=0.0)
    attempt.train = slow_train
    if loose := fault("LOOSE"):
        store.CHUNK = int(loose)
    target.PATIENCE = float(fault("PATIENCE", str(target.PATIENCE)))
    _plant_kill()


def _plant_kill() -> None:
    write, replace = Folder.write, Path.replace
    kill_at, _, moment = fault("KILL").partition(",")
    count = 0

    def full(number):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def counted(self, name, data, durable=True):
        nonlocal count
        count += 1
        now = str(count) == kill_at
        if count == int(fault("FULL", "0")):
            os.fsync = full
        if now and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        if now and moment == "amid":  # the bytes are in the temporary file, not yet in place
            Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        write(self, name, data, durable)
        Path.replace = replace
        if now and moment == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        if file := fault("COUNT"):
            Path(file).write_text(str(count))

    Folder.write = counted


def run(arguments: list[str]) -> int:
    """The command line of the sweep, with the faults of the environment."""
    torch.set_num_threads(1)
    plant()
    return main(make_sweep(), arguments)
