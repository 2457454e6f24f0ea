"""Many lines and many damaged checkpoints, from a seed; what is counted and what is found."""

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import torch

from tests.fuzz.checkpoints import mutations
from tests.fuzz.grammar import commands, make_line
from tests.fuzz.sandbox import Answer, nothing_computes, run
from tests.fuzz.world import enter_world, make_world


@dataclass
class Tally:
    """What was tried and how it ended. found: a line of words per fault."""

    what: str
    tried: int = 0
    refused: int = 0  # one sentence, exit code 2
    survived: int = 0  # answered, or accepted up to the first computation
    by_fault: Counter[str] = field(default_factory=Counter)
    found: list[str] = field(default_factory=list)

    def add(self, label: str, answer: Answer, must_refuse: bool = False) -> None:
        self.tried += 1
        fault = answer.fault
        if not fault and must_refuse and answer.code != 2:
            fault = "accepted in silence"
        if fault:
            self.by_fault[fault.split("\n")[0]] += 1
            self.found.append(f"{label}\n  {fault[:1500]}\n  {answer.err[-300:]}")
        elif answer.code == 2:
            self.refused += 1
        else:
            self.survived += 1

    def describe(self) -> str:
        """One line: tried, refused, survived, and what may not be."""
        faults = ", ".join(f"{n} {fault}" for fault, n in self.by_fault.items()) or "0 faults"
        return (
            f"{self.what}: {self.tried} tried, {self.refused} refused in one sentence, "
            f"{self.survived} survived; {faults}"
        )


def fuzz_lines(folder: Path, count: int, seed: int, remote: bool = False) -> Tally:
    """Random command lines over all commands, in a world made in `folder`."""
    torch.set_num_threads(1)
    known, rng = commands(), random.Random(seed)
    trial = make_world(folder)
    enter_world(folder)
    tally = Tally("command lines")
    with nothing_computes():
        for number in range(count):
            line = make_line(known[number % len(known)], rng, trial, remote)
            main = f"{line.main.__module__}.{line.main.__name__}"
            label = f"{main} {[word[:80] for word in line.words]}"
            tally.add(label, run(line.main, line.words, folder), line.must_refuse)
    return tally


def fuzz_checkpoints(folder: Path, count: int, seed: int) -> Tally:
    """Damaged checkpoints through the commands that read them.

    Refused, or answered: whatever is in a file, its answers are those of the weights in it.
    """
    from pcore.cli import main

    torch.set_num_threads(1)
    make_world(folder)
    enter_world(folder)
    rng, tally = random.Random(seed), Tally("checkpoints")
    whole, file = (folder / "model.pt").read_bytes(), folder / "damaged.pt"
    own = (folder / "own.pt").read_bytes()
    for kind, data in mutations(whole, own, rng, count):
        file.write_bytes(data)
        command = rng.choice((["solve"], ["explain"]))
        words = [*command, str(file), *(["1+1"] if command == ["solve"] else ["--examples", "4"])]
        words += ["--length", "2"] if command != ["solve"] else []
        tally.add(f"{kind}: {' '.join(command)}", run(main, words, folder))
    return tally
