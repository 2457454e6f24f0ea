"""A process that takes trials of a folder again and again, and holds each for a moment.

    python -m tests.support.sweeps.claims FOLDER NUM_TRIALS NUM_ROUNDS SEED

Exclusive creation of FOLDER/held/TRIAL is the judge: it fails if somebody else holds the trial.
"""

import os
import random
import sys
import time
from pathlib import Path

from sweeps.engine.launch import leases as launches
from sweeps.engine.launch.leases import LaunchLease
from sweeps.engine.store.folder import Folder


def hold(folder: Path, trials: set[str], seconds: float) -> None:
    files = [folder / "held" / trial for trial in trials]
    for file in files:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL))  # FileExistsError: granted twice
    time.sleep(seconds)
    for file in files:
        file.unlink()


def main(folder: Path, num_trials: int, num_rounds: int, seed: int) -> None:
    rng = random.Random(seed)
    launches.POLL = 0.002
    names = [f"trial{i}" for i in range(num_trials)]
    for _ in range(num_rounds):
        with LaunchLease(Folder(folder / "results")) as launch:
            wanted = set(rng.sample(names, rng.randint(1, num_trials)))
            for _ in range(rng.randint(1, 3)):
                mine = wanted - set(launch.claim(wanted))
                hold(folder, mine, 0.004 * rng.random())


if __name__ == "__main__":
    main(Path(sys.argv[1]), *(int(text) for text in sys.argv[2:]))
