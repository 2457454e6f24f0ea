"""Launches on one folder: no trial is granted twice at once, whatever the interleaving, and the
dead are told from the living.
"""

import dataclasses
import itertools
import json
import random
import subprocess
import sys
import threading
import time

import pytest

from sweeps.engine.launch import leases as launches
from sweeps.engine.launch.leases import LaunchLease
from sweeps.engine.store.folder import Entry, Folder
from sweeps.engine.store.store import Store
from sweeps.engine.trial.processes import Process, this_process
from tests.support.sweeps.processes import ROOT, check_once, ok_shards, run, start, wait_until

TRIALS = frozenset({"a", "b"})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(launches, "POLL", 0.02)
    return Folder(tmp_path)


def forge(folder: Folder, process: Process, trials=TRIALS, beat=b"0", state="running") -> str:
    """A launch of this process, as it would have written itself down."""
    owner = {"state": state, "process": process.as_dict(), "started_at": "2026-01-01T00:00:00"}
    name = f"forged{len(folder.list('launches'))}"
    folder.write(f"launches/{name}.json", json.dumps(owner | {"trials": sorted(trials)}).encode())
    folder.write(f"launches/{name}.beat", beat)
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

    def __init__(self, order: list[int]):
        self.order, self.files, self.turn = iter(order), dict[str, bytes](), threading.Condition()
        self.waiting, self.live, self.chosen = set[int](), set[int](), -1
        self.next = 0

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
        """When all wait, the next one in the order; after its end in turns, which is fair."""
        if self.chosen >= 0 or not self.live or self.waiting != self.live:
            return
        self.next = next(self.order, self.next + 1)
        waiting = sorted(self.waiting)
        self.chosen = waiting[self.next % len(waiting)]
        self.turn.notify_all()


class SteppedFolder(Folder):
    """Files in memory; every operation waits for its turn."""

    def __init__(self, stage: Stage, who: int):
        super().__init__("/nowhere")
        self.stage, self.who = stage, who

    def write(self, name: str, data: bytes) -> None:
        if name.endswith(".beat"):
            return
        self.stage.step(self.who)
        self.stage.files[name] = data

    def list(self, folder: str = "", hidden: bool = False) -> list[Entry]:
        self.stage.step(self.who)
        return [Entry(name, 1, 0.0) for name in sorted(self.stage.files)]

    def read(self, name: str) -> bytes:
        self.stage.step(self.who)
        if name not in self.stage.files:
            raise FileNotFoundError(name)
        return self.stage.files[name]

    def delete(self, names) -> None:
        for name in [names] if isinstance(names, str) else names:
            if not name.endswith(".beat"):
                self.stage.step(self.who)
                self.stage.files.pop(name, None)


def play(order: list[int], wanted: list[set[str]]) -> None:
    """Launches 0, 1, ... ask for these trials in this order of operations; each holds what it got
    until nothing else moves, and all come to an end.
    """
    stage, held, lock = Stage(order), dict[str, int](), threading.Lock()
    errors = list[str]()

    def work(who: int) -> None:
        launch = LaunchLease(SteppedFolder(stage, who))
        launch.name = f"launch{who}"
        try:
            launch._declare("idle", frozenset())
            taken = launch.claim(wanted[who])
            with lock:
                for trial in wanted[who] - set(taken):
                    if trial in held:
                        errors.append(f"{trial}: {held[trial]} and {who}, order {order}")
                    held[trial] = who
        finally:
            stage.end(who)

    stage.live = set(range(len(wanted)))
    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in stage.live]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive(), f"no end, order {order}"
    assert not errors
    assert set(held) == set().union(*wanted), f"nobody runs some trials, order {order}"


def test_no_interleaving_of_two_claims_grants_a_trial_twice(monkeypatch):
    """Every order of the first nine storage operations of two launches, then in turns."""
    monkeypatch.setattr(launches, "POLL", 0.0)
    for order in itertools.product((0, 1), repeat=9):
        play(list(order), [{"a"}, {"a"}])


def test_no_interleaving_of_three_claims_grants_a_trial_twice(monkeypatch):
    """Random orders, and trials that overlap in pairs only."""
    monkeypatch.setattr(launches, "POLL", 0.0)
    rng = random.Random(0)
    for wanted in ([{"a"}] * 3, [{"a", "b"}, {"b", "c"}, {"c", "a"}]):
        for _ in range(60):
            play([rng.randrange(6) for _ in range(30)], wanted)


def test_the_interleavings_do_find_a_protocol_that_looks_before_it_asks(monkeypatch):
    """The test of the test: with the order of asking and looking reversed, both get the trial."""

    def careless(self, trials):
        others = self.living(frozenset(trials))
        self._declare("running", frozenset(trials))
        return {name: o for o in others for name in o.trials & frozenset(trials)}

    monkeypatch.setattr(LaunchLease, "claim", careless)
    with pytest.raises(AssertionError, match=r"a: \d and \d, order"):
        play([0, 1] * 10, [{"a"}, {"a"}])


def test_many_threads_never_hold_a_trial_twice_and_get_all_of_them(folder):
    held, done, lock = set[str](), list[str](), threading.Lock()
    failures = list[str]()
    names = {f"trial{i}" for i in range(6)}

    def work(seed: int) -> None:
        rng = random.Random(seed)
        left = set(names)
        with LaunchLease(folder) as launch:
            while left:
                mine = left - set(launch.claim(left))
                with lock:
                    failures.extend(held & mine)
                    held.update(mine)
                time.sleep(0.003 * rng.random())
                with lock:
                    held.difference_update(mine)
                    done.extend(mine)
                left -= mine

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=100)
        assert not thread.is_alive()
    assert not failures
    assert sorted(done) == sorted([*names] * 6)
    assert not folder.list("launches")


def test_many_processes_never_hold_a_trial_twice(tmp_path):
    (tmp_path / "held").mkdir()
    command = [sys.executable, "-m", "tests.support.sweeps.claims", str(tmp_path), "5", "12"]
    workers = [
        subprocess.Popen([*command, str(seed)], cwd=ROOT, stderr=subprocess.PIPE, text=True)
        for seed in range(4)
    ]
    for worker in workers:
        _, complaint = worker.communicate(timeout=200)
        assert worker.returncode == 0, complaint
    assert not Folder(tmp_path / "results").list("launches")


# Dead or alive


def is_dead_for(launch: LaunchLease, trials=TRIALS) -> bool:
    return not launch.living(trials)


@pytest.mark.parametrize("kind", ["ended", "its number is another process now", "zombie"])
def test_a_dead_launch_of_this_machine_is_recognised_at_once(folder, kind):
    child = subprocess.Popen(["sleep", "60"])
    try:
        process = dead() if kind == "ended" else dataclasses.replace(this_process(), pid=child.pid)
        if kind == "zombie":
            born = next(iter(_born(child.pid)))
            process = dataclasses.replace(process, born=born)
            assert process.is_gone() is False
            child.kill()
            wait_until(lambda: _state(child.pid) == "Z")
        forge(folder, process)
        began = time.monotonic()
        with LaunchLease(folder) as launch:
            assert launch.claim(TRIALS) == {}
            assert {e.name.split("/")[1].split(".")[0] for e in folder.list("launches")} == {
                launch.name
            }
        assert time.monotonic() - began < 5
    finally:
        child.kill()
        child.wait()


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def _born(pid: int) -> list[str]:
    with open(f"/proc/{pid}/stat") as file:
        return [file.read().rpartition(")")[2].split()[19]]


def test_a_living_launch_of_this_machine_keeps_its_trials_without_any_sign_of_life(folder):
    """Stopped with Ctrl-Z it is not dead."""
    forge(folder, this_process(), trials={"a"})
    with LaunchLease(folder) as launch:
        assert set(launch.claim(TRIALS)) == {"a"}


def test_a_launch_of_another_machine_is_dead_when_its_counter_stands_still(folder, monkeypatch):
    """Until then its trials are left to it, and nobody waits to find out."""
    monkeypatch.setattr(launches, "PATIENCE", 0.5)
    forge(folder, elsewhere())
    with LaunchLease(folder) as launch:
        began = time.monotonic()
        taken = launch.claim(TRIALS)
        assert set(taken) == TRIALS
        text = f"process {this_process().pid} on far (since 2026-01-01T00:00:00)"
        assert {str(other) for other in taken.values()} == {text}
        wait_until(lambda: is_dead_for(launch))
        assert time.monotonic() - began >= 0.5
        assert launch.claim(TRIALS) == {}
    assert not folder.list("launches")


def test_a_dead_launch_of_another_machine_that_was_asking_holds_nobody_up_for_ever(
    folder, monkeypatch
):
    monkeypatch.setattr(launches, "PATIENCE", 0.3)
    forge(folder, elsewhere(), state="asking")
    with LaunchLease(folder) as launch:
        assert launch.claim(TRIALS) == {}


def test_a_launch_of_another_machine_is_alive_while_its_counter_moves(folder, monkeypatch):
    monkeypatch.setattr(launches, "PATIENCE", 1.0)  # a busy machine may hold up a beat
    name, stop = forge(folder, elsewhere()), threading.Event()

    def beat() -> None:
        for count in itertools.count(1):
            if stop.wait(0.05):
                return
            folder.write(f"launches/{name}.beat", str(count).encode())

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        with LaunchLease(folder) as launch:
            assert set(launch.claim(TRIALS)) == TRIALS
            end = time.monotonic() + 2.4
            while time.monotonic() < end:
                assert not is_dead_for(launch)
                time.sleep(0.05)
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("days", [-400, 400])
def test_a_clock_that_jumps_changes_nothing(folder, monkeypatch, days):
    """Whoever is alive stays alive, whoever is dead is dead: the wall clock is not asked."""
    monkeypatch.setattr(launches, "PATIENCE", 0.3)
    real = time.time
    forge(folder, this_process(), trials={"a"})
    forge(folder, dead(), trials={"b"})
    still = forge(folder, elsewhere(), trials={"c"})
    with LaunchLease(folder) as launch:
        assert set(launch.claim({"a", "b", "c"})) == {"a", "c"}
        monkeypatch.setattr(time, "time", lambda: real() + 86400 * days)
        assert set(launch.claim({"a", "b", "c"})) == {"a", "c"}
        wait_until(lambda: is_dead_for(launch, frozenset("c")))
        assert set(launch.claim({"a", "b", "c"})) == {"a"}
    assert not folder.exists(f"launches/{still}.json")


def test_what_dead_launches_left_is_removed_by_the_next_one_whatever_it_runs(folder):
    forge(folder, dead(), trials={"x"})
    forge(folder, dead(), trials=set(), state="idle")
    with LaunchLease(folder) as launch:
        assert launch.claim(TRIALS) == {}
    assert not folder.list("launches")


def test_an_unreadable_note_of_a_launch_is_no_launch(folder):
    folder.write("launches/broken.json", b'{"state": "run')
    with LaunchLease(folder) as launch:
        assert launch.claim(TRIALS) == {}


def test_a_launch_that_others_took_for_dead_stops(folder, monkeypatch):
    monkeypatch.setattr(launches, "HEARTBEAT", 0.02)
    said = list[str]()
    launch = LaunchLease(folder, say=said.append)

    def sleep_long() -> None:
        with launch:
            launch.claim(TRIALS)
            folder.delete([f"launches/{launch.name}.beat", f"launches/{launch.name}.json"])
            time.sleep(30)

    with pytest.raises(KeyboardInterrupt):
        sleep_long()
    assert launch.superseded
    assert said == ["another launch considered this one dead and took over its trials; stopping"]
    assert not folder.list("launches")


def test_a_full_disk_does_not_end_a_launch(folder, monkeypatch):
    monkeypatch.setattr(launches, "HEARTBEAT", 0.01)
    with LaunchLease(folder) as launch:
        launch.claim(TRIALS)

        def full(self, name, data, durable=True):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(Folder, "write", full)
            time.sleep(0.2)
        assert launch.thread.is_alive()
        assert not launch.superseded


# Whole sweeps


def test_two_sweeps_at_once_run_every_trial_once(tmp_path):
    """The second joins, says whom it waits for, and both end well."""
    flags: dict[str, object] = {"arms": 3, "steps": 6, "slow": 0.2}
    pair = [start(tmp_path, **flags), start(tmp_path, **flags)]
    assert [child.wait() for child in pair] == [0, 0], pair[0].output + pair[1].output
    check_once(tmp_path, 6)
    assert len(Store(tmp_path).shards()) == 6
    assert not list((tmp_path / "running").iterdir())
    for child, other in (pair, pair[::-1]):
        if "; waiting for them" in child.output:
            assert f"trials are being run by process {other.pid} on " in child.output


def test_the_second_sweep_takes_over_when_the_first_is_killed(tmp_path):
    flags: dict[str, object] = {"arms": 3, "steps": 6, "slow": 0.4}
    first = start(tmp_path, **flags)
    wait_until(lambda: ok_shards(tmp_path))
    second = start(tmp_path, **flags)
    wait_until(lambda: f"run by process {first.pid} on" in second.output)
    first.kill()
    assert first.wait() == -9
    assert second.wait() == 0, second.output
    check_once(tmp_path, 6)
    statuses = [shard.status for shard in Store(tmp_path).shards()]
    assert statuses.count("lost") <= 1
    assert len(statuses) <= 7
    assert run(tmp_path, **flags)[1].count("6 trials, 6 finished, 0 to run") == 1


def test_two_sweeps_that_share_trials_run_the_shared_ones_once(tmp_path):
    small = start(tmp_path, arms=2, steps=6, slow=0.2)
    large = start(tmp_path, arms=4, steps=6, slow=0.2)
    assert small.wait() == 0, small.output
    assert large.wait() == 0, large.output
    check_once(tmp_path, 8)
    assert len(Store(tmp_path).shards()) == 8
