"""One attempt at several trials of equal shapes at once: each with its own marker, state and shard,
all with one model in common (`pcore.training.stacked`).

A member that diverges or ends leaves the stack; the others continue. If a stack fails for another
reason (no memory, an encoding that cannot be batched), no member fails: each runs alone from its
last state. A trial that would be given up after one more lost attempt is never stacked, so
that it cannot harm others.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial

from pcore.cli.parser import first_line
from pcore.config import TrialConfig, trial_id
from pcore.training.stacked import train_stacked
from pcore.training.train import Diverged, Report
from sweeps.engine.arithmetic import process_settings
from sweeps.engine.store.folder import StorageFailed
from sweeps.engine.store.store import Store
from sweeps.engine.trial.attempt import (
    Attempt,
    Outcome,
    Settings,
    Timer,
    admit,
    run_attempt,
    unsaved,
)
from sweeps.engine.trial.markers import MAX_LOST, running_marker


def run_group(
    configs: Sequence[TrialConfig],
    settings: Settings,
    on_report: Callable[[str, Report], None] = lambda name, report: None,
    say: Callable[[str], None] = lambda text: None,
) -> Iterator[Outcome]:
    """Run trials of one stack, each to its end; outcomes as they come.

    on_report gets the id of the trial as well. say: for one sentence if the stack breaks. No trial
    is started after one that was paused: the slice is over.
    """
    store, alone, together = Store(settings.results), list[TrialConfig](), list[TrialConfig]()
    for config in configs:
        try:
            outcome, num_lost = admit(config, settings, store)
        except StorageFailed as error:
            yield unsaved(config, error)
            continue
        if outcome:
            yield outcome
        else:
            (alone if num_lost == MAX_LOST - 1 else together).append(config)
    if len(together) > 1:
        members, paused = _Members(together, settings, store), False
        for outcome in members.run(on_report):
            paused = paused or outcome.status == "paused"
            yield outcome
        if paused:
            return
        if members.broken:
            say(
                f"a stack of {len(together)} trials failed, they continue one by one: "
                f"{members.broken}"
            )
        together = members.unfinished
    for config in together + alone:
        outcome = run_attempt(config, settings, partial(on_report, trial_id(config)))
        yield outcome
        if outcome.status == "paused":
            return


class _Members:
    """The attempts of one stack. broken: why it ended early."""

    def __init__(self, configs: Sequence[TrialConfig], settings: Settings, store: Store):
        self.configs, self.settings, self.store = list(configs), settings, store
        self.seconds = [0.0] * len(configs)  # each member's share of the time of the stack
        self.trained, self.clock = 0.0, time.monotonic()  # training so far, of each active member
        self.attempts = [
            Attempt(config, settings, store, lambda i=i: self.seconds[i], len(configs))
            for i, config in enumerate(configs)
        ]
        self.markers: dict[int, ExitStack] = {}
        self.active = list(range(len(configs)))
        self.broken = ""

    @property
    def unfinished(self) -> list[TrialConfig]:
        """What is left to run if the stack ended early."""
        return [self.configs[i] for i in self.active]

    def run(self, on_report: Callable[[str, Report], None]) -> Iterator[Outcome]:
        """Train together until no member is active, the time is over or the stack breaks."""
        try:
            with process_settings(self.settings.num_threads):
                yield from self._train(on_report)
        except StorageFailed as error:
            for i in list(self.active):
                self.active.remove(i)
                yield unsaved(self.configs[i], error)
        except Exception as error:
            self.broken = f"{type(error).__name__}: {first_line(error)}"
        finally:
            for marker in self.markers.values():
                with suppress(StorageFailed):  # the next launch removes it
                    marker.close()

    def _train(self, on_report: Callable[[str, Report], None]) -> Iterator[Outcome]:
        for i, attempt in enumerate(self.attempts):
            marker = self.markers[i] = ExitStack()
            folder, launch = self.store.folder, self.settings.launch
            marker.enter_context(running_marker(folder, attempt.name, launch))
        states = [attempt.resume() for attempt in self.attempts]
        timer, settings = Timer(self.settings), self.settings
        for updates in train_stacked(
            self.configs, device=settings.device, states=states, compile=settings.compiled
        ):
            reports = {i: update for i, update in updates.items() if isinstance(update, Report)}
            evaluated = any(report.results for report in reports.values())
            self._charge(reports, list(reports) if evaluated else self.active)
            for i, report in reports.items():
                if i not in self.active:  # cancelled: it trains on, unseen
                    continue
                self.attempts[i].take(report)
                on_report(self.attempts[i].name, report)
            for i, update in updates.items():
                if i not in self.active:
                    continue
                if isinstance(update, Diverged):
                    yield self._end(i, self.attempts[i].fail(update))
                elif update.finished:
                    yield self._end(i, self.attempts[i].finish("ok"))
            action, may_ask = timer.next_action(), timer.may_ask()
            for i in list(self.active):
                if outcome := self.attempts[i].end_if_due(action, may_ask):
                    yield self._end(i, outcome)
            if not self.active:
                return

    def _charge(self, reports: Mapping[int, Report], served: Sequence[int]) -> None:
        """Divide the time since the last update: training among all active members, the rest
        (evaluation, saving) among the members `served` by it.
        """
        now = time.monotonic()
        trained = max((report.seconds for report in reports.values()), default=self.trained)
        share, passed = trained - self.trained, now - self.clock
        self.trained, self.clock = trained, now
        for i in self.active:
            self.seconds[i] += share
        for i in served:
            self.seconds[i] += (passed - share * len(self.active)) / len(served)

    def _end(self, i: int, outcome: Outcome) -> Outcome:
        """Take a member out of the stack; its outcome."""
        self.markers.pop(i).close()
        self.active.remove(i)
        return outcome
