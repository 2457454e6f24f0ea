"""The loop that runs trials, and what executors share whose workers are separate processes: trials
go out as text in chunks, events come back, and trials whose worker died are accounted for.
"""

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self, TypeAlias

from pcore.config import TrialConfig, flatten, trial_id, unflatten
from pcore.training import Report
from sweeps.engine.executors.base import Listener, Policy, Tracker
from sweeps.engine.executors.news import News, TrialReport
from sweeps.engine.plan import PlannedTrial
from sweeps.engine.store.store import Store
from sweeps.engine.trial.attempt import Outcome, Settings, run_attempt
from sweeps.engine.trial.failures import cell_of
from sweeps.engine.trial.markers import record_lost

CHUNK_SECONDS = 20.0  # short trials are bundled until a chunk takes about this long
SEND_SECONDS = 1.0  # the least time between two messages of a worker
Event: TypeAlias = tuple[Any, ...]  # a method of `Listener` and its arguments


def run_trials(
    configs: Iterable[TrialConfig], settings: Settings, policy: Policy, listener: Listener
) -> None:
    """Run trials one after another in this process, each to its end.

    Finished trials come out as done, those that the policy stops as stopped.
    """
    news = News()
    for config in configs:
        name, cell = trial_id(config), cell_of(config)
        if reason := policy.stop_reason(cell):
            stopped = Outcome(trial_id=name, status="stopped", seconds=0.0, error=reason)
            listener.finished(stopped)
            continue

        def on_report(report: Report, name: str = name) -> None:
            if new := news.read(name, report):
                listener.advanced(name, new)

        news.begin(name)
        listener.begin(name)
        outcome = run_attempt(config, settings, on_report)
        policy.record(cell, outcome.status, outcome.error)
        listener.finished(outcome)


def make_chunks(pending: Sequence[PlannedTrial], num_slots: int) -> list[list[str]]:
    """Trials as JSON, bundled in their order so that a chunk takes about CHUNK_SECONDS, but every
    slot gets a few chunks.
    """
    seconds = [planned.price.seconds if planned.price else CHUNK_SECONDS for planned in pending]
    enough = min(CHUNK_SECONDS, sum(seconds) / (4 * num_slots))
    chunks: list[list[str]] = []
    filled = enough
    for planned, cost in zip(pending, seconds, strict=True):
        if filled >= enough:
            chunks.append([])
            filled = 0.0
        chunks[-1].append(json.dumps(flatten(planned.trial.config)))
        filled += cost
    return chunks


def run_chunk(
    parameters: dict[str, Any],
    settings: Settings,
    policy: Policy,
    send: Callable[[list[Event]], None],
) -> None:
    """Runs in a worker: the trials of `parameters["chunk"]`, those that an earlier try of the
    chunk finished excepted. send: brings events to `replay`.
    """
    # Own code that a trial names is that of the sweep the user launched.
    configs = [unflatten(json.loads(text), trust_code=True) for text in parameters["chunk"]]
    with WorkerReporter(send) as reporter:
        run_trials(configs, settings, policy, reporter)


class WorkerReporter(Listener):
    """Sends what it is told to the launching process, from a thread of its own, until the end of
    the block. A message can cost milliseconds, so after one events are collected for a while.
    """

    def __init__(self, send: Callable[[list[Event]], None]):
        self.send = send
        self.events: list[Event] = []
        self.lock = threading.Lock()  # of the events
        self.told, self.ended = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._send_all, daemon=True)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.ended.set()
        self.told.set()
        self.thread.join()

    def begin(self, trial_id: str) -> None:
        self._add("begin", trial_id)

    def advanced(self, trial_id: str, report: TrialReport) -> None:
        self._add("advanced", trial_id, report)

    def say(self, text: str) -> None:
        self._add("say", text)

    def finished(self, outcome: Outcome) -> None:
        self._add("finished", outcome)

    def _add(self, *event: Any) -> None:
        with self.lock:
            self.events.append(event)
        self.told.set()

    def _send_all(self) -> None:
        while not self.ended.is_set():
            self.told.wait()
            self.told.clear()
            self._send_collected()
            self.ended.wait(SEND_SECONDS)
        self._send_collected()

    def _send_collected(self) -> None:
        with self.lock:
            events, self.events = self.events, []
        if events:
            self.send(events)


def replay(events: Sequence[Event], listener: Listener) -> None:
    """In the launching process: tell the listener what a `WorkerReporter` was told. No exception
    of the listener escapes: it would end the work of others.
    """
    for method, *arguments in events:
        try:
            getattr(listener, method)(*arguments)
        except Exception as error:
            listener.say(f"progress line: {type(error).__name__}: {error}")


def account_for_missing(
    pending: Sequence[PlannedTrial], settings: Settings, progress: Tracker
) -> None:
    """End trials of which nothing was heard: as the store says, or as lost if their workers died
    with them.
    """
    store = Store(settings.results)
    for planned in pending:
        name = planned.trial.id
        if name in progress.outcomes:
            continue
        shard = store.visible_shard(name)
        if shard is None or not shard.finished:
            record_lost(store, planned.trial.config, settings.launch)
            shard = store.visible_shard(name)
        status = shard.status if shard is not None else "lost"
        error = "its worker died" if status == "lost" else ""
        progress.finished(Outcome(trial_id=name, status=status, seconds=0.0, error=error))
