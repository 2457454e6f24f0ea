"""The faults of docs/faults.md that need neither a cluster nor a server, one test per row. Each
ends with every good trial exactly once in the table, and an exit code and a sentence that are true.
"""

import json
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest

from sweeps.engine.store.store import Store
from sweeps.engine.trial.failures import MAX_TRIES
from tests.support.sweeps.processes import check_once, ok_shards, rows, run, start, wait_until

LONG: dict[str, object] = {"arms": 2, "steps": 51}  # four trials that save a state midway
BRIEF: dict[str, object] = {"arms": 2, "steps": 6}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The rows of LONG that nothing happened to."""
    return rows_of(tmp_path_factory.mktemp("undisturbed"), LONG)


@pytest.fixture(scope="module")
def brief_results(tmp_path_factory):
    """The results folder of BRIEF that nothing happened to, to be copied."""
    results = tmp_path_factory.mktemp("brief")
    rows_of(results, BRIEF)
    return results


@pytest.fixture(scope="module")
def brief(brief_results):
    """Its rows."""
    return rows(brief_results)


@pytest.fixture
def finished(brief_results, tmp_path):
    """BRIEF has run in `tmp_path`."""
    shutil.copytree(brief_results, tmp_path, dirs_exist_ok=True)


def rows_of(results: Path, sweep: dict[str, object]) -> list[dict]:
    code, output = run(results, **sweep)
    assert code == 0, output
    return rows(results)


def statuses(results: Path) -> Counter[str]:
    return Counter(shard.status for shard in Store(results).shards())


def check_says(output: str, *texts: str) -> None:
    assert "Traceback" not in output
    for text in texts:
        assert text in output, output


def test_a_killed_driver_loses_nothing_and_repeats_nothing(tmp_path, undisturbed):
    child = start(tmp_path, **LONG, slow=0.3)
    wait_until(lambda: ok_shards(tmp_path) and list((tmp_path / "running").glob("*.json")))
    child.kill()
    assert child.wait() == -signal.SIGKILL
    kept = {shard.name for shard in ok_shards(tmp_path)}
    code, output = run(tmp_path, **LONG)
    assert code == 0
    check_says(output, f"4 trials, {len(kept)} finished, {4 - len(kept)} to run")
    assert kept <= {shard.name for shard in ok_shards(tmp_path)}
    assert statuses(tmp_path)["lost"] <= 1
    assert rows(tmp_path) == undisturbed
    assert not list((tmp_path / "running").iterdir())


def test_a_driver_killed_right_after_a_shard_leaves_no_marker_behind(finished, tmp_path, brief):
    kept, lost = ok_shards(tmp_path)[:2]
    (tmp_path / lost.name).unlink()
    process = {"host": "gone", "place": "elsewhere", "pid": 1, "born": "1"}
    owner = {"process": process, "launch": "x", "started_at": "2026-01-01T00:00:00+00:00"}
    (tmp_path / "running" / f"{kept.trial_id}.json").write_text(json.dumps(owner))
    assert run(tmp_path, **BRIEF)[0] == 0
    assert not list((tmp_path / "running").iterdir())
    assert statuses(tmp_path) == {"ok": 4}
    assert rows(tmp_path) == brief


def test_an_interrupted_driver_says_how_to_go_on(tmp_path, undisturbed):
    child = start(tmp_path, **LONG, slow=0.3)
    wait_until(lambda: ok_shards(tmp_path))
    child.kill(signal.SIGINT)
    assert child.wait() == 130
    check_says(child.output, "interrupted; finished trials are stored, the same command resumes")
    assert not list((tmp_path / "running").iterdir())
    assert run(tmp_path, **LONG)[0] == 0
    assert statuses(tmp_path) == {"ok": 4}
    assert rows(tmp_path) == undisturbed


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda data: data[: len(data) // 2], "not a readable Parquet file"),
        (lambda data: b"", "not a readable Parquet file"),
        (lambda data: data[:999] + bytes([data[999] ^ 1]) + data[1000:], "its contents or name do"),
    ],
    ids=("cut", "empty", "a bit"),
)
def test_a_damaged_shard_is_named_and_its_trial_runs_again(finished, tmp_path, brief, damage, told):
    victim = tmp_path / ok_shards(tmp_path)[1].name
    data = damage(victim.read_bytes())
    victim.write_bytes(data)
    code, output = run(tmp_path, **BRIEF)
    assert code == 0
    check_says(output, "4 trials, 3 finished, 1 to run", f"left out: {victim}: {told}")
    assert victim.read_bytes() == data
    check_once(tmp_path, 4)
    assert rows(tmp_path) == brief
    assert max(shard.attempt for shard in ok_shards(tmp_path)) == 2


def test_one_poisoned_and_one_diverging_configuration_among_twenty_good_ones(tmp_path):
    faults: dict[str, object] = {"arms": 22, "steps": 9, "poison": "arm10", "wild": "arm11"}
    code, output = run(tmp_path, "--seeds", "1", **faults)
    assert code == 1
    assert statuses(tmp_path) == {"ok": 20, "error": 1, "diverged": 1}
    check_once(tmp_path, 20)
    assert "\nerror: arm10, seed 0 (" in output
    assert "RuntimeError: planted" in output
    assert "\ndiverged: arm11, seed 0 (" in output
    code, output = run(tmp_path, "--seeds", "1", **faults)
    assert code == 1
    assert "22 trials, 21 finished, 0 to run, 1 not run again after an error" in output
    assert sum(statuses(tmp_path).values()) == 22


def test_the_same_error_twice_stops_its_siblings_with_one_message(tmp_path):
    faults: dict[str, object] = {"arms": 2, "steps": 2, "poison": "arm0"}
    code, output = run(tmp_path, "--seeds", "6", **faults)
    assert code == 1
    assert statuses(tmp_path) == {"ok": 6, "error": 2}
    during, _, after = output.partition("redraw:")
    assert during.count("the same error twice: RuntimeError: planted") == 1
    assert after.count("the same error twice") == 1
    assert after.count("stopped: arm0") == 4
    code, output = run(tmp_path, "--seeds", "6", **faults)
    assert code == 1
    assert "0 to run, 6 not run again after an error (--retry-errors does)" in output
    code, output = run(tmp_path, "--seeds", "6", "--retry-errors", arms=2, steps=2)
    assert code == 0
    assert "12 trials, 6 finished, 6 to run" in output
    check_once(tmp_path, 12)


def test_an_error_in_every_cell_stops_the_launch(tmp_path):
    poison = ",".join(f"arm{i}" for i in range(20))
    code, output = run(tmp_path, "--seeds", "1", arms=20, steps=2, poison=poison)
    assert code == 1
    assert statuses(tmp_path) == {"error": 5}
    assert "the same error in 5 cells, nothing finished: RuntimeError: planted" in output


def test_out_of_memory_is_tried_again_in_the_same_launch(tmp_path, brief):
    """Not for ever: then by the next one."""
    code, output = run(tmp_path, **BRIEF, oom=99)
    assert code == 1
    check_says(output, "OOM", "planted: out of memory", "oom: arm0, seed 0")
    assert statuses(tmp_path) == {"oom": 4 * MAX_TRIES}
    code, output = run(tmp_path, **BRIEF, oom=1)
    assert code == 0, output
    assert statuses(tmp_path) == {"oom": 4 * (MAX_TRIES + 1), "ok": 4}
    assert rows(tmp_path) == brief


@pytest.mark.parametrize("write", [1, 3, 4, 6, 7, 9, 11])
def test_a_disk_that_fills_up_at_any_write_ends_with_a_sentence_and_is_continued(
    tmp_path, brief, write
):
    code, output = run(tmp_path, **BRIEF, full=write)
    assert code == (2 if write == 1 else 1), output
    check_says(output, f"{tmp_path} cannot be ", "written: ", "No space left on device")
    kept = {shard.name for shard in ok_shards(tmp_path)}
    code, output = run(tmp_path, **BRIEF)
    assert code == 0, output
    assert kept <= {shard.name for shard in ok_shards(tmp_path)}
    check_once(tmp_path, 4)
    assert rows(tmp_path) == brief
