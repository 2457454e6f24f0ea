"""How the commands answer bad input, counted.

python -m tests.fuzz --lines 2000 --checkpoints 500      exit code 1 if anything was found
"""

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

from tests.fuzz.run import Tally, fuzz_checkpoints, fuzz_lines


def main() -> int:
    """Run both fuzzers; 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=2000, help="command lines")
    parser.add_argument("--checkpoints", type=int, default=500, help="mutated checkpoints")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    tallies: list[Tally] = []
    fuzzers = (given.lines, partial(fuzz_lines, remote=True)), (given.checkpoints, fuzz_checkpoints)
    for count, fuzz in fuzzers:
        if count:
            with tempfile.TemporaryDirectory(prefix="pcore-fuzz-") as folder:
                tallies.append(fuzz(Path(folder), count, given.seed))
    for tally in tallies:
        for line in tally.found:
            print(line, "\n")
    for tally in tallies:
        print(tally.describe())
    return 1 if any(tally.found for tally in tallies) else 0


if __name__ == "__main__":
    sys.exit(main())
