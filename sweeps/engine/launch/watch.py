"""What happens to trials, read from the results folder: attempts that start, advance and end.

    for change in Watch(store).look(): ...

Whoever wants to know looks again after a while and gets the differences. Nobody is told by those
who train, so nobody can delay them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweeps.engine.store.names import Shard
from sweeps.engine.store.schema import REPORT
from sweeps.engine.store.store import Store
from sweeps.engine.trial.running import Observer, Row, Running

UNTRAINED: Row = dict.fromkeys(REPORT, 0) | {"loss": math.nan}  # a constructed model
MEASURED = ("checkpoint", "length", "second_length", "range", "num_correct", "num_examples")


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """Exact match at one length, under one checkpoint policy."""

    checkpoint: str  # policy
    length: int
    second_length: int | None
    range: str  # train, near, test
    num_correct: int
    num_examples: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialReport:
    """The progress of a running trial."""

    step: int
    num_steps: int
    loss: float  # mean training loss since the report before, nats per target
    learning_rate: float
    grad_norm: float  # before clipping
    seconds: float  # in training steps so far, of this attempt
    measured: tuple[Measured, ...] = ()  # lengths measured since the report before

    @property
    def share(self) -> float:
        """Share of training steps done, 0 to 1."""
        return self.step / self.num_steps if self.num_steps else 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What became of a trial since the last look: it runs, or it has ended. shard: what it left;
    None if it was interrupted.
    """

    trial_id: str
    running: Running | None = None
    shard: Shard | None = None


class Watch:
    """Looks at a store again and again. What was there at first is no news."""

    def __init__(self, store: Store):
        self.store, self.observer = store, Observer(store.folder)
        self.known = {shard.name for shard in store.shards()}
        self.running: dict[str, Running] = {}

    def look(self) -> Iterator[Change]:
        """What is new, an end before a new start. Of an attempt that was over between two looks
        only its end is seen; its shard has all that it reported.
        """
        running = self.observer.look()  # before the shards: what ends in between is seen twice
        new = [shard for shard in self.store.shards() if shard.name not in self.known]
        self.known.update(shard.name for shard in new)
        ended = {shard.trial_id for shard in new}
        for shard in new:
            yield Change(trial_id=shard.trial_id, shard=shard)
        for name, before in self.running.items():
            now = running.get(name)
            if name not in ended and (now is None or now.attempt != before.attempt):
                yield Change(trial_id=name)
        self.running = {name: one for name, one in running.items() if name not in ended}
        for name, one in self.running.items():
            yield Change(trial_id=name, running=one)


class Reports:
    """Turns changes into reports, each once, in the order in which they were made."""

    def __init__(self, store: Store):
        self.store = store
        self.told: dict[str, tuple[int, int]] = {}  # last step and number of lengths, by trial

    def read(self, change: Change) -> list[TrialReport]:
        """What a trial has reported since it was last asked for."""
        if change.running:
            one = change.running
            return self._new(change.trial_id, one.curve, one.results, one.config)
        if change.shard is None:
            return []
        rows = self.store.load_shards([change.shard]).to_pylist()
        curve = [row for row in rows if row["record"] == "report"]
        results = [row for row in rows if row["record"] == "evaluation"]
        return self._new(change.trial_id, curve, results, rows[0])

    def _new(
        self, name: str, curve: Sequence[Row], results: Sequence[Row], config: Mapping[str, Any]
    ) -> list[TrialReport]:
        last, count = self.told.get(name, (-1, 0))
        num_steps = config["optim.num_steps"]
        reports = [
            TrialReport(num_steps=num_steps, **{key: row[key] for key in REPORT})
            for row in curve
            if row["step"] > last
        ]
        if len(results) > count:
            at: Row = {key: curve[-1][key] for key in REPORT} if curve else UNTRAINED
            new = (Measured(**{key: row[key] for key in MEASURED}) for row in results[count:])
            reports.append(TrialReport(num_steps=num_steps, measured=tuple(new), **at))
        self.told[name] = (curve[-1]["step"] if curve else last, len(results))
        return reports
