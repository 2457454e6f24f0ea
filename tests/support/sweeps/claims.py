"""A process that takes trials of a folder again and again, and holds each for a moment.

    python -m tests.support.sweeps.claims FOLDER NUM_TRIALS NUM_ROUNDS SEED

Exclusive creation of FOLDER/held/TRIAL is the judge: it fails if somebody else holds the trial.
"""

import os
import random
import sys
import time
from pathlib import Path

from sweeps.engine.store.folder import Folder
from sweeps.engine.trial.running import Taken, running


def main(folder: Path, num_trials: int, num_rounds: int, seed: int) -> None:
    rng, count = random.Random(seed), 0
    while count < num_rounds:
        trial = f"{rng.randrange(num_trials):016x}"
        try:
            with running(Folder(folder / "results"), trial, f"launch{seed}", dict):
                held = folder / "held" / trial
                os.close(os.open(held, os.O_CREAT | os.O_EXCL))  # FileExistsError: granted twice
                time.sleep(0.004 * rng.random())
                held.unlink()
                count += 1
        except Taken:
            time.sleep(0.001 * rng.random())


if __name__ == "__main__":
    main(Path(sys.argv[1]), *(int(text) for text in sys.argv[2:]))
