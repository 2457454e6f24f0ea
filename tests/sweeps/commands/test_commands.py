"""`python -m sweeps`: what it prints is what the store holds, and what it removes nobody needs."""

import json
import os
import re
import time
from dataclasses import replace

import pytest

from pcore.config import canonical, flatten, override, trial_id
from sweeps.__main__ import main
from sweeps.baseline import addition
from sweeps.commands import catalogue
from sweeps.engine import executors
from sweeps.engine.executors import Executor
from sweeps.engine.launch.launch import view_rows
from sweeps.engine.options import LaunchOptions
from sweeps.engine.plan import make_plan
from sweeps.engine.store.store import Store
from sweeps.engine.trial import provenance
from sweeps.engine.trial.running import running
from tests.support.sweeps.tiny import make_sweep

SHORT = {"optim.num_steps": 2, "eval.num_examples": 2}
CELLS = {"one": SHORT, "two": SHORT | {"model.num_layers": 2}}
ROW = {"checkpoint": "last", "range": "test", "length": 5, "num_examples": 10, "num_correct": 7}


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    """A sweep called `tiny` stands in the catalogue."""
    sweep, real, is_script = make_sweep(**CELLS), catalogue.find_sweep, catalogue.is_script
    monkeypatch.setattr(
        "sweeps.commands.catalogue.is_script", lambda name: name == "tiny" or is_script(name)
    )
    for module in ("sweeps.__main__", "sweeps.commands.catalogue"):
        monkeypatch.setattr(
            f"{module}.find_sweep", lambda name: sweep if name == "tiny" else real(name)
        )
    return sweep


def command(name: str, results, *flags: str) -> int:
    return main([name, *flags, "--results", str(results)])


def run(results, *flags: str) -> int:
    quiet = ["--executor", "inline", "--no-mlflow", "--no-report", "--scale", "smoke"]
    return command("run", results, "tiny", *quiet, *flags)


def test_trials_shows_ids_states_results_and_weights(tmp_path, tiny, capsys):
    first, second, *_ = tiny.trials("smoke")
    Store(tmp_path).write(first.config, "ok", {}, (), [ROW])
    Store(tmp_path).folder.write(f"checkpoints/{first.id}/last.pt", b"weights")
    assert command("trials", tmp_path, "tiny", "--scale", "smoke") == 0
    lines = capsys.readouterr().out.splitlines()
    (done,) = [line.split() for line in lines if first.id in line.split()[1:2]]
    assert done == [
        *("one", first.id, "0", "0", "done", "-", "-", "70.0"),
        f"checkpoints/{first.id}/last.pt",
    ]
    (missing,) = [line.split() for line in lines if second.id in line]
    assert missing == ["one", second.id, "1", "1", "missing", "-", "-", "-", "-"]
    plan = make_plan(tiny, "smoke", "2,3@7", Store(tmp_path))
    Store(tmp_path).write_view(view_rows(plan))
    Store(tmp_path).write(plan.trials[-1].trial.config, "ok", {}, (), [ROW])  # the others never ran
    assert command("trials", tmp_path, "tiny", "--scale", "smoke") == 0
    words = [line.split() for line in capsys.readouterr().out.splitlines()[3:8]]
    shown = [(line[2], line[4]) for line in words]
    assert shown[:2] == [("0", "done"), ("9", "done")], "what is stored comes first"
    assert [state for _, state in shown[2:]] == ["missing"] * 3
    assert command("trials", tmp_path, "tiny", "--scale", "smoke", "--seeds", "1") == 0
    table = capsys.readouterr().out.split("\n\n")[1].splitlines()
    states = {line.split()[1]: line.split()[4] for line in table[1:]}
    assert states == {first.id: "done", tiny.trials("smoke", "1")[1].id: "missing"}


def test_several_sweeps_run_as_one_launch_and_share_trials(tmp_path, capfd, monkeypatch, tiny):
    wide = make_sweep(**CELLS, wide=SHORT | {"model.d_ff": 128})
    larger = replace(wide, name="larger")
    found = {"tiny": tiny, "larger": larger}
    monkeypatch.setattr("sweeps.commands.catalogue.find_sweep", lambda name: found[name])
    quiet = ["--executor", "inline", "--no-mlflow", "--no-report", "--scale", "smoke"]
    assert command("run", tmp_path, "tiny", "larger", "tiny", *quiet) == 0
    assert len(Store(tmp_path).shards()) == 6
    assert Store(tmp_path).view_names() == [("larger", "smoke"), ("tiny", "smoke")]
    assert "6/6 done" in capfd.readouterr().out


def test_states_are_shown_and_counted_and_a_trial_runs_while_its_process_lives(
    tmp_path, capsys, tiny
):
    store = Store(tmp_path)
    stale, busy, fresh, failed, missing, unknown = tiny.trials("smoke", "3")
    store.write(stale.config, "ok", {"code_hash": "a1:older"}, [], [ROW])
    store.write(fresh.config, "ok", {"code_hash": provenance.hash_sources()}, [], [ROW])
    store.write(failed.config, "oom", {"error": "out of memory"})
    store.write(unknown.config, "ok", {}, [], [ROW])
    store.write_view(view_rows(make_plan(tiny, "smoke", "3", store)))

    def shown(*words: str) -> list[list[str]]:
        assert command(*words[:1], tmp_path, *words[1:]) == 0
        return [line.split() for line in capsys.readouterr().out.splitlines()]

    def states() -> list[str]:
        listed = {words[1]: words[4] for words in shown("trials", "tiny", "--scale", "smoke")[3:9]}
        return [listed[trial.id] for trial in (stale, busy, missing)]

    with (
        running(store.folder, stale.id, "", dict),  # about to be removed
        running(store.folder, busy.id, "", dict),
    ):
        assert states() == ["done", "running", "missing"]
        lines = shown("status", "tiny", "--scale", "smoke", "--seeds", "3")
        head = ["cell", "trials", "done", "diverged", "running", "missing", "failed", "stale"]
        assert head in lines
        assert ["one", "3", "2", "0", "1", "0", "0", "1"] in lines
        assert ["two", "3", "1", "0", "0", "1", "1", "0"] in lines
        assert ["all", "6", "3", "0", "1", "1", "1", "1"] in lines
        told = "1 finished trials: code version unknown"
        assert any(line[:6] == told.split() for line in lines), "nor called stale"
        assert ["tiny", "smoke", "6", "3", "0", "1", "1", "1"] in shown("status")
        assert ["trial", f"{busy.id}:", "running"] in shown("why", busy.id)
        (file,) = (tmp_path / "running").glob(f"{busy.id}-*.json")
        owner = json.loads(file.read_text())
        owner["process"]["born"] = "before"  # another process of this number
        file.write_text(json.dumps(owner))
        assert states() == ["done", "missing", "missing"]
        assert ["trial", f"{busy.id}:", "never", "run"] in shown("why", busy.id)


def test_why_begins_with_the_result_and_has_everything_as_json(tmp_path, capsys, tiny):
    assert run(tmp_path) == 0
    store, (first, *_) = Store(tmp_path), tiny.trials("smoke")
    store.write(first.config, "lost", {"error": "process 7 ended", "host": "here"})
    capsys.readouterr()
    assert command("why", tmp_path, first.id[:6]) == 0
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert lines[0] == f"trial {first.id}: ok"
    assert lines[1].startswith("exact match over all lengths: train ")
    address = "tiny [smoke]/one/seed 0, data seed 0"
    assert f"  {address}" in lines
    assert re.search(r"attempt 1: ok, .* commit", printed)
    assert "attempt 2: lost" in printed
    assert "process 7 ended" in printed
    assert f"kept: {tmp_path}/checkpoints/{first.id}/last.pt" in lines
    assert len(lines) < 20
    assert command("why", tmp_path, address, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["configuration"] == flatten(first.config)
    assert facts["canonical"] == canonical(first.config)
    assert [attempt["status"] for attempt in facts["attempts"]] == ["ok", "lost"]
    assert {row["length"] for row in facts["results"] if row["range"] == "test"} == set(
        first.config.eval.test_lengths
    )


def test_gc_lists_first_and_removes_only_what_nobody_needs(tmp_path, capsys, tiny):
    assert run(tmp_path) == 0
    store, (first, second, *_) = Store(tmp_path), tiny.trials("smoke")
    shards = {shard.name for shard in store.shards()}
    other = trial_id(override(addition("smoke"), SHORT | {"seed": 77}))
    old, new = time.time() - 30 * 86400, time.time()
    planted = {
        f"checkpoints/{first.id}/state.pt": new,
        f"checkpoints/{other}/state.pt": old,
        f"checkpoints/{'f' * 16}/state.pt": new,
        f"trials/{first.id[:2]}/.{first.id}-1-ok-01234567.parquet.89abcdef.tmp": old,
        "packs/01234567.parquet": old,
    }
    for name, when in planted.items():
        store.folder.write(name, b"x")
        os.utime(tmp_path / name, (when, when))
    weights = tmp_path / "checkpoints" / second.id / "last.pt"
    capsys.readouterr()
    assert command("gc", tmp_path) == 0
    printed = capsys.readouterr().out
    assert "4 files" in printed
    assert "would be removed (add --yes)" in printed
    assert all((tmp_path / name).exists() for name in planted)
    assert command("gc", tmp_path, "--yes") == 0
    assert [(tmp_path / name).exists() for name in planted] == [False, False, True, False, False]
    assert weights.exists()
    os.utime(weights, (old, old))
    assert command("gc", tmp_path, "--yes", "--weights") == 0
    assert not weights.exists()
    assert {shard.name for shard in store.shards()} == shards


def test_gc_touches_nothing_that_is_not_ours(tmp_path, capsys, tiny):
    """Not by its name, not behind a link, not in a folder that is no store."""
    results, theirs = tmp_path / "results", tmp_path / "theirs"
    store, trial = Store(results), tiny.trials("smoke")[0]
    row = {"sweep": "tiny", "scale": "smoke", "cell": "a", "cell_order": 0, "trial_id": trial.id}
    store.write_view([row])
    shard = f".{trial.id}-1-ok-01234567.parquet"
    ours = f"trials/{trial.id[:2]}/{shard}.89abcdef.tmp"
    names = [
        "trials/aa/.half.parquet.1234.tmp",
        f"trials/{trial.id[:2]}/{shard}.tmp",
        f"elsewhere/{shard}.89abcdef.tmp",
        ".cache/big.01234567.tmp",
        "trials/.git/x.tmp",
        "checkpoints/mine/state.pt",
        f"checkpoints/{trial.id}/notes.txt",
        "packs/mine-evaluation.parquet",
        "running/mine.json",
    ]
    for folder, kept in ((results, [ours, *names]), (theirs, [f"{'f' * 16}/state.pt", *names])):
        for name in kept:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(b"{}")
            os.utime(folder / name, (0, 0))
    (results / "mechanism").symlink_to(theirs / "trials")
    (results / "checkpoints" / ("e" * 16)).symlink_to(theirs / ("f" * 16))
    before = {str(file) for file in tmp_path.rglob("*")}
    assert command("gc", results, "--older-than", "1s", "--yes", "--weights") == 0
    assert before - {str(file) for file in tmp_path.rglob("*")} == {str(results / ours)}
    assert command("gc", theirs / "trials", "--yes") == 2
    assert "is not a results folder" in capsys.readouterr().err


def test_cpus_are_those_that_a_process_may_use(tmp_path, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {1}, raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    assert Executor().num_slots == 1
    with pytest.raises(ValueError, match="--cpus-per-trial 2: this machine has 1"):
        LaunchOptions(results="r", scale="smoke", executor=Executor(cpus=2.0))
    monkeypatch.delattr("os.sched_getaffinity")  # as on macOS
    assert Executor().num_slots == 64
    quota = tmp_path / "cpu.max"
    monkeypatch.setattr(executors, "CPU_QUOTA", quota)
    for text, count in (("250000 100000", 2), ("5000 100000", 1), ("max 100000", 64)):
        quota.write_text(text)
        assert Executor().num_slots == count


def test_a_sweep_is_forgotten_with_the_trials_that_no_other_view_lists(tmp_path, capsys):
    assert run(tmp_path) == 0
    only_one = ["--only", "one", "--name", "mistake", "--seeds", "3"]
    assert run(tmp_path, *only_one) == 0
    store = Store(tmp_path)
    before = {shard.name for shard in store.shards()}
    assert len(before) == 5
    capsys.readouterr()
    assert command("forget", tmp_path, "mistake", "--scale", "laptop") == 2
    assert "has no view of 'mistake'" in capsys.readouterr().err
    assert command("forget", tmp_path, "mistake") == 0
    told = "1 x shard, 1 x view, 1 x weights\n2 of 3 trials stay: other views list them\n"
    assert told + "would be removed (add --yes)" in capsys.readouterr().out
    assert {shard.name for shard in store.shards()} == before
    assert run(tmp_path, "--seeds", "3") == 0  # a second file of the view that keeps its trials
    newest = max((tmp_path / "views").glob("tiny*"), key=lambda file: file.stat().st_mtime_ns)
    sound = newest.read_bytes()
    newest.write_bytes(sound[:-9] + b"?" + sound[-8:])
    assert command("forget", tmp_path, "mistake", "--yes") == 2
    assert "is damaged: which trials are its own?" in capsys.readouterr().err
    newest.unlink()
    assert command("forget", tmp_path, "mistake", "--yes") == 0
    assert Store(tmp_path).view_names() == [("tiny", "smoke")]
    assert len(Store(tmp_path).shards()) == 5
    assert command("verify", tmp_path) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("status --results {0}/file", "file is a file, not a results folder"),
        ("run tiny --executor inline --results /proc/nowhere", "cannot be written"),
        (
            "plan {0}/raises.py",
            "raises.py: ZeroDivisionError: division by zero (raises.py, line 2, in <module>)",
        ),
        ("run {0}/my_search.py", "my_search.py defines no SWEEP; a search is run by its script: "),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path, capsys, words, message):
    """More of it is in tests/snapshots/refusals/sweeps.txt."""
    (tmp_path / "file").touch()
    (tmp_path / "raises.py").write_text("\n1 / 0\n")
    (tmp_path / "my_search.py").write_text("SEARCH = 1\n")
    assert main(words.format(tmp_path).split()) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err


def test_a_ray_that_cannot_start_is_one_sentence(tmp_path, monkeypatch):
    ray_cluster = pytest.importorskip("sweeps.engine.executors.ray_cluster")

    def fail(**options):
        raise RuntimeError("The current node timed out during startup.\nSee the logs.")

    monkeypatch.setattr("ray.init", fail)
    message = r"^Ray cannot start: The current node timed out during startup\. \(--executor inline"
    with (
        pytest.raises(ValueError, match=message),
        ray_cluster.ray_session(Executor(), Store(tmp_path)),
    ):
        pass


def test_a_plan_says_which_missing_trials_come_with_pcore(tmp_path, capsys, monkeypatch):
    flags = ["depth_ablation", "--scale", "laptop", "--only", "coupling, 1 layer"]
    assert command("plan", tmp_path, *flags, "--seeds", "2x2@600") == 0
    told = "4 of these come with pcore and need not run: python -m sweeps merge "
    assert told in capsys.readouterr().out
    assert command("plan", tmp_path, *flags, "--seeds", "2@7") == 0
    assert "come with pcore" not in capsys.readouterr().out
    monkeypatch.setattr("sweeps.engine.store.location.PUBLISHED", tmp_path / "not a checkout")
    assert command("plan", tmp_path, *flags, "--seeds", "2x2@600") == 0
    assert "come with pcore" not in capsys.readouterr().out
