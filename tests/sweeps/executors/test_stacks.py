"""Stacked trials in the engine: rows, resume, failures and the choice of what is stacked."""

import argparse
import json
import subprocess
import time

import pytest
import torch

from pcore.config import flatten, override, trial_id
from pcore.encodings import Encoding
from sweeps.engine.executors.stacks import form_stacks, measure_gain
from sweeps.engine.executors.worker import make_chunks
from sweeps.engine.options import parse_stack
from sweeps.engine.plan import PlannedTrial
from sweeps.engine.prices.price import price_cells
from sweeps.engine.spec import Cell, Trial
from sweeps.engine.store.folder import Folder, StorageFailed
from sweeps.engine.store.store import Store
from sweeps.engine.trial import attempt, stacked_attempt
from sweeps.engine.trial.attempt import Settings, run_attempt
from sweeps.engine.trial.markers import record_lost
from sweeps.engine.trial.processes import this_process
from sweeps.engine.trial.stacked_attempt import run_group
from tests.support.sweeps.tiny import CONFIG, make_sweep, run

pytestmark = pytest.mark.slow  # minutes together

RATES = {"fast": {"optim.learning_rate": 3e-3}, "slow": {"optim.learning_rate": 1e-4}}
DEEP = {"deep": {"model.num_layers": 2}}
WILD = {"wild": {"optim.learning_rate": 1e30, "optim.grad_clip": 0.0}}
SEEDS = [{"seed": 0}, {"seed": 1, "data_seed": 1}]
TRIALS = [override(CONFIG, {"seed": i, "data_seed": i, "optim.num_steps": 120}) for i in range(3)]


class Peeking(Encoding):
    """Looks at the values of a batch, which cannot be done for many models at once."""

    def embed(self, ids):
        return None if int(ids.max()) >= 0 else ids


def rows(folder, record=None) -> list[dict]:
    table = Store(folder).load(record=record)
    keys = [(name, "ascending") for name in ("trial_id", "record", "step", "range", "length")]
    return table.sort_by(keys).to_pylist()


def assert_same_science(left, right):
    """Rows of two folders are equal: counts exactly, numbers of training up to rounding."""
    ours, theirs = rows(left), rows(right)
    assert len(ours) == len(theirs) > 0
    for a, b in zip(ours, theirs, strict=True):
        for name in ("trial_id", "record", "step", "range", "length", "status", "num_correct"):
            assert a[name] == b[name], name
        for name in ("loss", "grad_norm", "loss_sum"):
            expected = None if b[name] is None else pytest.approx(b[name], rel=1e-4)
            assert a[name] == expected, name


def prepared(folder):
    Store(folder).prepare()
    return folder


def outcomes(configs, folder, **options) -> dict[str, str]:
    group = run_group(configs, Settings(results=str(folder), **options))
    return {outcome.trial_id: outcome.status for outcome in group}


# Rows -----------------------------------------------------------------------------------------


def test_rows_of_stacked_trials_are_those_of_solo_trials_and_say_so(tmp_path):
    sweep = make_sweep(**RATES, **DEEP)
    began = time.monotonic()
    assert run(sweep, tmp_path / "stacked", "--stack", "8") == 0
    took = time.monotonic() - began
    assert run(sweep, tmp_path / "solo") == 0
    assert_same_science(tmp_path / "stacked", tmp_path / "solo")
    trials = rows(tmp_path / "stacked", "trial")
    assert {(r["model.num_layers"], r["stacked"]) for r in trials} == {(1, 4), (2, 2)}
    assert {r["stacked"] for r in rows(tmp_path / "solo", "trial")} == {1}
    assert sum(r["wall_seconds"] for r in trials) <= took, "seconds of a row are its share"
    for row in trials:
        assert row["train_seconds"] > 0
        assert row["eval_seconds"] > 0
        assert row["first_step"] == 0


def test_a_second_run_starts_nothing_and_a_solo_run_reuses_stacked_rows(
    tmp_path, capfd, monkeypatch
):
    assert run(make_sweep(**RATES), tmp_path, "--stack", "4") == 0
    monkeypatch.setattr(attempt, "train", lambda *a, **k: pytest.fail("a trial was started"))
    assert run(make_sweep(**RATES), tmp_path) == 0
    assert "4 trials, 4 finished, 0 to run" in capfd.readouterr().out
    assert len(Store(tmp_path).shards()) == 4


def test_prices_do_not_come_from_stacked_rows(tmp_path):
    assert run(make_sweep(one={}), tmp_path, "--stack", "2") == 0
    prices = price_cells({trial_id(CONFIG): CONFIG}, Store(tmp_path), "cpu")
    (price,) = prices.by_cell.values()
    assert price.source == "probed"


# Ends -----------------------------------------------------------------------------------------


def test_a_diverged_member_has_its_row_and_the_others_theirs(tmp_path):
    sweep = make_sweep(**WILD, **RATES)
    assert run(sweep, tmp_path / "stacked", "--stack", "6") == 0
    assert run(sweep, tmp_path / "solo") == 0
    found = {r["trial_id"]: r for r in rows(tmp_path / "stacked", "trial")}
    assert sorted(r["status"] for r in found.values()) == ["diverged"] * 2 + ["ok"] * 4
    for row in rows(tmp_path / "solo", "trial"):
        assert found[row["trial_id"]]["status"] == row["status"]
        assert found[row["trial_id"]]["error"] == row["error"]
        assert found[row["trial_id"]]["stacked"] == 6


@pytest.mark.parametrize("finish", ["stacked", "solo"])
def test_a_stack_cut_into_slices_ends_with_the_rows_of_an_uncut_one(tmp_path, finish):
    whole, cut = prepared(tmp_path / "whole"), prepared(tmp_path / "cut")
    names = [trial_id(config) for config in TRIALS]
    assert outcomes(TRIALS, whole) == dict.fromkeys(names, "ok")
    for _ in range(2):
        ended = outcomes(TRIALS, cut, slice_end=time.monotonic())
        assert ended == dict.fromkeys(names, "paused")
        assert not Store(cut).shards()
        assert not list((cut / "running").iterdir())
    if finish == "stacked":
        assert outcomes(TRIALS, cut) == dict.fromkeys(names, "ok")
    else:
        settings = Settings(results=str(cut))
        assert {run_attempt(config, settings).status for config in TRIALS} == {"ok"}
    assert_same_science(cut, whole)
    assert {r["first_step"] for r in rows(cut, "trial")} == {100}
    assert {r["stacked"] for r in rows(cut, "trial")} == {3 if finish == "stacked" else 1}


def test_solo_trials_go_on_in_a_stack(tmp_path):
    whole, cut = prepared(tmp_path / "whole"), prepared(tmp_path / "cut")
    for config in TRIALS:
        assert run_attempt(config, Settings(results=str(whole))).status == "ok"
    late = Settings(results=str(cut), slice_end=0.0)
    assert run_attempt(TRIALS[0], late).status == "paused"
    assert set(outcomes(TRIALS, cut).values()) == {"ok"}
    assert_same_science(cut, whole)
    assert sorted(r["first_step"] for r in rows(cut, "trial")) == [0, 0, 50]


def test_nothing_is_begun_behind_the_end_of_a_slice(tmp_path):
    long = {"optim.num_steps": 120}
    sweep = make_sweep(first=long, second=long | {"model.num_layers": 2})
    assert run(sweep, tmp_path, "--stack", "4", "--slice", "0.000001") == 1
    first = {"checkpoints/" + trial_id(override(CONFIG, long | seeds)) for seeds in SEEDS}
    assert {str(f.relative_to(tmp_path)) for f in (tmp_path / "checkpoints").iterdir()} == first


def test_a_time_limit_is_that_of_the_stack_and_keeps_every_state(tmp_path):
    prepared(tmp_path)
    assert set(outcomes(TRIALS, tmp_path, time_limit=1e-9).values()) == {"timeout"}
    assert set(outcomes(TRIALS, tmp_path).values()) == {"ok"}
    assert {r["first_step"] for r in rows(tmp_path, "trial")} == {50}
    assert [s.status for s in Store(tmp_path).shards()] == ["timeout", "ok"] * 3


def test_a_finished_member_is_not_run_again(tmp_path):
    prepared(tmp_path)
    assert run_attempt(TRIALS[1], Settings(results=str(tmp_path))).status == "ok"
    ended = outcomes(TRIALS, tmp_path)
    assert [ended[trial_id(config)] for config in TRIALS] == ["ok", "done", "ok"]
    assert sorted(r["stacked"] for r in rows(tmp_path, "trial")) == [1, 2, 2]


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("planted"), RuntimeError("vmap: planted")], ids=repr
)
def test_what_breaks_a_stack_is_not_held_against_its_members(tmp_path, monkeypatch, error):
    """They go on alone from their last states."""
    real, sentences = stacked_attempt.train_stacked, list[str]()

    def breaking(configs, **options):
        stack = real(configs, **options)
        yield next(stack)
        raise error

    monkeypatch.setattr(stacked_attempt, "train_stacked", breaking)
    whole, broken = prepared(tmp_path / "whole"), prepared(tmp_path / "broken")
    settings = Settings(results=str(broken), checkpoint_every=-1.0)
    found = list(run_group(TRIALS, settings, say=sentences.append))
    assert [outcome.status for outcome in found] == ["ok"] * 3
    assert len(sentences) == 1
    assert "a stack of 3 trials failed, they continue one by one" in sentences[0]
    assert "planted" in sentences[0]
    assert not list((broken / "running").iterdir())
    trials = rows(broken, "trial")
    assert {(r["stacked"], r["first_step"]) for r in trials} == {(1, 50)}
    for config in TRIALS:
        run_attempt(config, Settings(results=str(whole)))
    assert_same_science(broken, whole)


def test_an_encoding_that_cannot_be_batched_runs_all_the_same(tmp_path, capfd):
    code = {"position.encoding": "tests.sweeps.executors.test_stacks:Peeking"}
    assert run(make_sweep(own=code), tmp_path, "--stack", "2") == 0
    assert "failed, they continue one by one" in capfd.readouterr().out
    assert {r["stacked"] for r in rows(tmp_path, "trial")} == {1}
    assert measure_gain([override(CONFIG, code)] * 2, Settings(results="")) == 0.0


@pytest.mark.parametrize("place", ["running", "trials"])
def test_a_results_folder_that_cannot_be_written_is_said_of_every_member(
    tmp_path, monkeypatch, place
):
    prepared(tmp_path)
    write = Folder.write

    def full(self, name, data):
        if name.startswith(place):
            raise StorageFailed("no space")
        write(self, name, data)

    monkeypatch.setattr(Folder, "write", full)
    group = list(run_group(TRIALS, Settings(results=str(tmp_path))))
    assert [(outcome.status, outcome.error) for outcome in group] == [("unsaved", "no space")] * 3
    monkeypatch.setattr(Folder, "write", write)
    assert set(outcomes(TRIALS, tmp_path).values()) == {"ok"}


def test_a_trial_whose_next_loss_is_its_last_runs_alone(tmp_path):
    """After two lost workers its fault, if it is one, will not be its companions'."""
    store = Store(prepared(tmp_path))
    child = subprocess.Popen(["true"])
    child.wait()
    dead = this_process().as_dict() | {"pid": child.pid, "born": "0"}
    owner = {"process": dead, "launch": "now", "started_at": "2026-01-01"}
    for _ in range(2):
        attempt_marker(tmp_path, TRIALS[0], owner)
        record_lost(store, TRIALS[0], "now")
    attempt_marker(tmp_path, TRIALS[1], owner)
    assert set(outcomes(TRIALS, tmp_path, launch="now").values()) == {"ok"}
    stacked = {r["trial_id"]: r["stacked"] for r in rows(tmp_path, "trial")}
    assert [stacked[trial_id(config)] for config in TRIALS] == [1, 2, 2]


def attempt_marker(folder, config, owner):
    marker = folder / "running" / f"{trial_id(config)}.json"
    marker.parent.mkdir(exist_ok=True)
    marker.write_text(json.dumps(owner))


# What is stacked ------------------------------------------------------------------------------


def plan_of(*changes: dict) -> list[PlannedTrial]:
    configs = [override(CONFIG, change) for change in changes]
    cells = [Cell(label=str(i), config=config) for i, config in enumerate(configs)]
    trials = [Trial(cell=c, config=x, id=trial_id(x)) for c, x in zip(cells, configs, strict=True)]
    return [PlannedTrial(trial=trial, state="missing", price=None) for trial in trials]


MIXED = [
    {"seed": 0},
    {"model.num_layers": 2},
    {"seed": 1},
    {"position.encoding": "fire", "seed": 0},
    {"optim.learning_rate": 0.1},
    {"position.encoding": "fire", "seed": 1},
    {"model.num_layers": 2, "seed": 1},
    {"seed": 2},
]


def grouped(stack, num_slots=1, gain=2.0, changes=MIXED) -> list[list[int]]:
    """Groups as indices into `changes`."""
    pending, settings = plan_of(*changes), Settings(results="", stack=stack)
    place = {planned.trial.id: i for i, planned in enumerate(pending)}
    stacks = form_stacks(pending, settings, num_slots, lambda configs: gain)
    return [[place[planned.trial.id] for planned in group] for group in stacks]


def test_alike_trials_are_stacked_in_the_order_of_the_first_of_each():
    assert grouped(1) == [[i] for i in range(8)]
    assert grouped(8) == [[0, 2, 4, 7], [1, 6], [3], [5]]
    assert grouped(3) == [[0, 2], [1, 6], [3], [4, 7], [5]], "as equal in size as can be"
    assert grouped("auto") == grouped(8)


def test_auto_leaves_no_slot_without_work():
    assert grouped("auto", num_slots=2) == [[0, 2], [1], [3], [4, 7], [5], [6]]
    seeds = [{"seed": i} for i in range(40)]
    assert [len(g) for g in grouped("auto", changes=seeds)] == [13, 13, 14]


@pytest.mark.parametrize(("gain", "largest"), [(1.19, 1), (1.2, 4)])
def test_auto_stacks_only_what_a_probe_says_pays(gain, largest):
    assert max(map(len, grouped("auto", gain=gain))) == largest


def test_the_probe_measures_and_refuses_what_would_fill_a_cpu(monkeypatch):
    settings = Settings(results="")
    assert 0.05 < measure_gain([CONFIG, override(CONFIG, {"seed": 1})], settings) < 20
    large = override(CONFIG, {"optim.batch_size": 10_000_000})
    monkeypatch.setattr(
        "sweeps.engine.executors.stacks.Run", lambda *a: pytest.fail("compute began")
    )
    assert measure_gain([large, large], settings) == 0.0


def test_auto_on_the_command_line(tmp_path, monkeypatch):
    for gain, expected in ((1.0, {1}), (3.0, {4})):
        monkeypatch.setattr(
            "sweeps.engine.executors.stacks.measure_gain", lambda *a, gain=gain: gain
        )
        assert run(make_sweep(**RATES), tmp_path / str(gain), "--stack", "auto") == 0
        assert {r["stacked"] for r in rows(tmp_path / str(gain), "trial")} == expected


@pytest.mark.parametrize(("text", "value"), [("auto", "auto"), ("off", 1), ("16", 16)])
def test_the_flag(text, value):
    assert parse_stack(text) == value


@pytest.mark.parametrize("text", ["0", "1", "-3", "many", "2.5", ""])
def test_a_wrong_flag_is_refused_in_a_sentence(text):
    with pytest.raises(argparse.ArgumentTypeError, match="not auto, off, or a number"):
        parse_stack(text)


def test_a_stack_travels_as_plain_text():
    """A worker in another process gets configurations as JSON, a list for every stack."""
    pending = plan_of(*MIXED)
    chunks = make_chunks([pending[:3], pending[3:4]], num_slots=1)
    texts = [text for chunk in chunks for stack in chunk for text in stack]
    assert [len(stack) for chunk in chunks for stack in chunk] == [3, 1]
    assert [json.loads(text) for text in texts] == [flatten(p.trial.config) for p in pending[:4]]
