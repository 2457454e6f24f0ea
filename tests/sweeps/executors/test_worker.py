"""What workers of other processes tell the launching process, and when."""

import threading
from types import SimpleNamespace

from sweeps.engine.executors import worker
from sweeps.engine.executors.worker import Event, WorkerReporter
from sweeps.engine.trial.failures import FailurePolicy


def test_the_first_event_is_sent_at_once_and_the_rest_together(monkeypatch):
    monkeypatch.setattr(worker, "SEND_SECONDS", 600.0)
    sent, arrived = list[list[Event]](), threading.Event()

    def send(events: list[Event]) -> None:
        sent.append(events)
        arrived.set()

    with WorkerReporter(send) as reporter:
        reporter.begin("first")
        assert arrived.wait(60)
        for name in ("a", "b"):
            reporter.begin(name)
        reporter.say("over")
        assert len(sent) == 1
    begun = [("begin", name) for name in ("first", "a", "b")]
    assert sent == [begun[:1], [*begun[1:], ("say", "over")]]


def test_a_block_in_which_nothing_happens_sends_nothing():
    sent = list[list[Event]]()
    with WorkerReporter(sent.append):
        pass
    assert not sent


def test_failures_of_other_workers_count_after_a_while_and_own_ones_at_once(monkeypatch):
    from sweeps.engine.executors import ray_tune

    class Actor:
        """Calls its policy at once; `ray.get` then has nothing to wait for."""

        def __init__(self) -> None:
            self.policy, self.asked = FailurePolicy(), 0
            self.record = SimpleNamespace(remote=self.policy.record)
            self.current = SimpleNamespace(remote=self.copy)

        def copy(self) -> FailurePolicy:
            self.asked += 1
            told = FailurePolicy()
            told.__dict__.update(self.policy.__dict__, stopped_cells={**self.policy.stopped_cells})
            return told

    now, actor = 100.0, Actor()
    monkeypatch.setattr(ray_tune, "ray", SimpleNamespace(get=lambda copy: copy))
    monkeypatch.setattr(ray_tune, "time", SimpleNamespace(monotonic=lambda: now))
    one, other = ray_tune.SharedPolicy(actor), ray_tune.SharedPolicy(actor)
    for policy in (one, other):
        assert not policy.stop_reason("cell")
    for _ in range(2):
        one.record("cell", "error", "planted")
    assert one.stop_reason("cell") == "the same error twice: planted"
    assert not other.stop_reason("cell")
    now += ray_tune.ASK_SECONDS + 0.1
    assert other.stop_reason("cell") == "the same error twice: planted"
    one.record("another", "ok", "")
    assert not one.stop_reason("another")
    before = actor.asked
    for _ in range(5):  # after the first, ok changes nothing
        one.record("another", "ok", "")
        assert not one.stop_reason("another")
    assert actor.asked == before
