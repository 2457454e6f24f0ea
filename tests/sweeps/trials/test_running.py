"""Who runs a trial: none is granted twice at once, whatever the interleaving, and the dead are told
from the living.
"""

import contextlib
import dataclasses
import itertools
import json
import random
import subprocess
import threading
import time
from collections.abc import Sequence

import pytest

from pcore.config import trial_id
from sweeps.engine.store.folder import Entry, Folder
from sweeps.engine.store.store import Store
from sweeps.engine.trial import running as running_file
from sweeps.engine.trial.processes import Process, this_process
from sweeps.engine.trial.running import Observer, Taken, running
from tests.support.sweeps.processes import check_once, ok_shards, run, start, wait_until
from tests.support.sweeps.tiny import CONFIG, attempt_telling

TRIAL = "a" * 16


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


def claim(folder: Folder, launch: str = "ours", dead: Sequence[str] = ()):
    return running(folder, TRIAL, launch, dict, dead)


def forge(folder: Folder, process: Process, trial: str = TRIAL, beat: int = 0) -> str:
    """The file of an attempt of this process, as it would have written it."""
    owner = {
        "process": dataclasses.asdict(process),
        "launch": "theirs",
        "started_at": "2026-01-01T00:00:00",
    }
    name = f"running/{trial}-{'0' * 8}.json"
    folder.write(name, json.dumps(owner | {"beat": beat}).encode())
    return name


def elsewhere() -> Process:
    """A process of another machine."""
    return dataclasses.replace(this_process(), host="far", place="another boot/another space")


def dead() -> Process:
    """A process of this machine that has ended."""
    child = subprocess.Popen(["true"])
    child.wait()
    return dataclasses.replace(this_process(), pid=child.pid, born="1")


# Exclusion


class Stage:
    """Lets launches in threads do one storage operation each, in an order that is given."""

    def __init__(self, order: Sequence[int]):
        self.order, self.files, self.turn = iter(order), dict[str, bytes](), threading.Condition()
        self.rng = random.Random(repr(order))
        self.waiting, self.live, self.chosen = set[int](), set[int](), -1

    def step(self, who: int) -> None:
        """Wait until it is this launch's turn."""
        with self.turn:
            self.waiting.add(who)
            self._choose()
            self.turn.wait_for(lambda: self.chosen == who)
            self.chosen = -1
            self.waiting.discard(who)

    def end(self, who: int) -> None:
        with self.turn:
            self.live.discard(who)
            self._choose()

    def _choose(self) -> None:
        """When all wait, the next one in the order; after its end by chance."""
        if self.chosen >= 0 or not self.live or self.waiting != self.live:
            return
        waiting = sorted(self.waiting)
        self.chosen = waiting[next(self.order, self.rng.randrange(6)) % len(waiting)]
        self.turn.notify_all()


class SteppedFolder(Folder):
    """Files in memory; every operation waits for its turn."""

    def __init__(self, stage: Stage, who: int):
        super().__init__("/nowhere")
        self.stage, self.who = stage, who

    def write(self, name: str, data: bytes, durable: bool = True) -> None:
        self.stage.step(self.who)
        self.stage.files[name] = data

    def list(self, folder: str = "", links: bool = False) -> list[Entry]:
        self.stage.step(self.who)
        return [Entry(name, 1, 0.0) for name in sorted(self.stage.files)]

    def read(self, name: str) -> bytes:
        self.stage.step(self.who)
        if name not in self.stage.files:
            raise FileNotFoundError(name)
        return self.stage.files[name]

    def delete(self, names) -> None:
        self.stage.step(self.who)
        self.stage.files.pop(names, None)


def play(order: Sequence[int]) -> None:
    """Two launches ask for one trial until each has held it, in this order of operations."""
    stage, holders, errors = Stage(order), list[int](), list[str]()

    def work(who: int) -> None:
        folder, is_done = SteppedFolder(stage, who), False
        while not is_done:
            with contextlib.suppress(Taken), claim(folder, f"launch{who}"):
                holders.append(who)
                stage.step(who)
                stage.step(who)
                if len(holders) > 1:
                    errors.append(f"{holders}, order {order}")
                holders.remove(who)
                is_done = True
        stage.end(who)

    stage.live = {0, 1}
    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in stage.live]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive(), f"no end, order {order}"
    assert not errors


def test_no_interleaving_of_two_claims_grants_a_trial_twice():
    """Every order of the first eight storage operations, then by chance."""
    for order in itertools.product((0, 1), repeat=8):
        play(order)


# Dead or alive


@pytest.mark.parametrize("kind", ["ended", "its number is another process now", "zombie"])
def test_a_dead_process_of_this_machine_is_recognised_at_once(folder, kind):
    child = subprocess.Popen(["sleep", "60"])
    try:
        process = dead() if kind == "ended" else dataclasses.replace(this_process(), pid=child.pid)
        if kind == "zombie":
            born = _fields(child.pid)[19]
            process = dataclasses.replace(process, born=born)
            assert process.is_gone() is False
            child.kill()
            wait_until(lambda: _fields(child.pid)[0] == "Z")
        name = forge(folder, process)
        assert not Observer(folder).look()
        with claim(folder) as found:
            assert [one.file for one in found[0]] == [name]
        assert [entry.name for entry in folder.list("running")] == [name], (
            "until its row is written"
        )
    finally:
        child.kill()
        child.wait()


def _fields(pid: int) -> list[str]:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()


def test_a_living_process_of_this_machine_keeps_its_trial_without_any_sign_of_life(folder):
    """Stopped with Ctrl-Z it is not dead."""
    name = forge(folder, this_process())
    assert set(Observer(folder).look()) == {TRIAL}
    with pytest.raises(Taken), claim(folder, dead=[name]):
        pass
    assert [entry.name for entry in folder.list("running")] == [name]


def test_a_process_of_another_machine_is_dead_when_its_file_stands_still(folder, monkeypatch):
    """Until then the trial is left to it; a launch knows of its own workers."""
    now = 0.0
    monkeypatch.setattr(running_file.time, "monotonic", lambda: now)
    name, observer = forge(folder, elsewhere()), Observer(folder)
    assert observer.look()[TRIAL].owner == f"process {this_process().pid} on far"
    with pytest.raises(Taken), claim(folder):
        pass
    with claim(folder, launch="theirs") as found:
        assert [one.file for one in found[0]] == [name]
    now = 0.9 * running_file.PATIENCE
    forge(folder, elsewhere(), beat=1)
    assert observer.look()
    now = 1.8 * running_file.PATIENCE
    assert observer.look()
    now = 2.0 * running_file.PATIENCE
    assert not observer.look()
    with claim(folder, dead=list(observer.dead)) as found:
        assert [one.file for one in found[0]] == [name]


@pytest.mark.parametrize("days", [-400, 400])
def test_a_clock_that_jumps_changes_nothing(folder, monkeypatch, days):
    """Whoever is alive stays alive, whoever is dead is dead: the wall clock is not asked."""
    monkeypatch.setattr(running_file, "PATIENCE", 0.3)
    real, observer = time.time, Observer(folder)
    forge(folder, this_process(), "a" * 16)
    forge(folder, dead(), "b" * 16)
    forge(folder, elsewhere(), "c" * 16)
    assert set(observer.look()) == {"a" * 16, "c" * 16}
    monkeypatch.setattr(time, "time", lambda: real() + 86400 * days)
    assert set(observer.look()) == {"a" * 16, "c" * 16}
    wait_until(lambda: set(observer.look()) == {"a" * 16})


def test_an_attempt_that_others_took_for_dead_saves_its_state_and_stops(tmp_path, monkeypatch):
    monkeypatch.setattr(running_file, "BEAT", 0.02)
    folder = Folder(tmp_path)

    def tell(report):
        folder.delete(entry.name for entry in folder.list("running"))
        time.sleep(0.3)

    outcome = attempt_telling(CONFIG, tmp_path, tell)
    assert outcome.status == "held"
    assert "its state is saved" in outcome.error
    assert folder.exists(f"checkpoints/{trial_id(CONFIG)}/state.pt")
    assert not Store(tmp_path).shards()


def test_a_full_disk_does_not_end_an_attempt(folder, monkeypatch):
    monkeypatch.setattr(running_file, "BEAT", 0.01)

    def full(self, name, data, durable=True):
        raise OSError(28, "No space left on device")

    with claim(folder) as found:
        with monkeypatch.context() as patch:
            patch.setattr(Folder, "write", full)
            time.sleep(0.2)
        assert not found[1].is_set()


# Whole sweeps


def test_two_sweeps_at_once_run_every_trial_once(tmp_path):
    """They share the trials, and each waits for what the other one still runs."""
    flags: dict[str, object] = {"arms": 3, "steps": 6, "slow": 0.2}
    pair = [start(tmp_path, **flags), start(tmp_path, **flags)]
    assert [child.wait() for child in pair] == [0, 0], pair[0].output + pair[1].output
    check_once(tmp_path, 6)
    assert len(Store(tmp_path).shards()) == 6
    assert not list((tmp_path / "running").iterdir())
    for child, other in (pair, pair[::-1]):
        assert "  ok " in child.output, "each runs some"
        if "; waiting" in child.output:
            assert f"left, run by process {other.pid} on " in child.output


def test_the_second_sweep_takes_over_when_the_first_is_killed(tmp_path):
    flags: dict[str, object] = {"arms": 3, "steps": 6, "slow": 0.4}
    first = start(tmp_path, **flags)
    wait_until(lambda: ok_shards(tmp_path))
    second = start(tmp_path, **flags)
    wait_until(lambda: "  ok " in second.output)
    first.kill()
    assert first.wait() == -9
    assert second.wait() == 0, second.output
    check_once(tmp_path, 6)
    statuses = [shard.status for shard in Store(tmp_path).shards()]
    assert statuses.count("lost") <= 1
    assert len(statuses) <= 7
    assert run(tmp_path, **flags)[1].count("6 trials, 6 finished, 0 to run") == 1
