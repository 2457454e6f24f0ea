"""Nothing is drawn from a file that says what cannot be: it is named, left out, and stays there."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from pcore.checkpoint import pack_model
from pcore.config import flatten, override, trial_id, without_seeds
from pcore.settings import MAX_OUTCOMES
from sweeps.__main__ import main
from sweeps.engine.plan import trial_states
from sweeps.engine.store.folder import Folder, StorageFailed
from sweeps.engine.store.seal import BadFile, read_parquet, seal
from sweeps.engine.store.store import Store
from sweeps.engine.store.verify import check_weights
from sweeps.engine.trial.running import attempts_at
from tests.support.rows.mutations import CONFIGS, IDS, evaluation, make_store


@pytest.fixture
def store(tmp_path) -> Store:
    return make_store(tmp_path / "results")


def file_of(store: Store, seed: int) -> Path:
    return store.folder.local / store.shards_of(IDS[seed])[0].name


def states(store: Store) -> list[str]:
    """What a plan says of the three trials."""
    cells = {trial_id(config): trial_id(without_seeds(config)) for config in CONFIGS}
    return list(trial_states(cells, Store(store.root)).values())


# Seals


def test_a_seal_holds_for_its_name_and_bytes_only():
    table = pa.table({"a": [1, 2]})
    data = seal(table, "views/x")
    assert read_parquet(data, "views/x").equals(table)
    for other, name in ((data, "views/y"), (data[:30] + b"x" + data[31:], "views/x")):
        with pytest.raises(BadFile, match="do not match the stored hash"):
            read_parquet(other, name)
    many = seal(table.take([0] * 99_999), "views/x")
    with pytest.raises(BadFile, match=f"99,999 rows in {len(many):,} bytes"):
        read_parquet(many, "views/x")


# Rows


IMPOSSIBLE = {
    "500 of 10 right at length 5": {"num_correct": 500, "outcomes": None},
    "-7 of 10 right": {"num_correct": -7, "outcomes": None},
    "0 of 0 right": {"num_examples": 0, "num_correct": 0, "outcomes": None},
    "101 of 100 tokens right": {"num_correct_tokens": 101},
    "7 of 5 failures explained": {"num_missed_stop": 2},
    "outcomes of 5 right answers, counted as 4 of 10": {"num_correct": 4, "num_wrong_symbol": 0},
    "evaluations of range far": {"range": "far"},
    "evaluations of checkpoint middle": {"checkpoint": "middle"},
    "evaluations without length": {"length": None},
}


@pytest.mark.parametrize("reason", IMPOSSIBLE)
def test_impossible_counts_are_named_and_left_out(store, capfd, reason):
    """Also those that our own code wrote, with a seal."""
    config = override(CONFIGS[0], {"seed": 7})
    good = evaluation(2, 6, 0)
    name = store.write(config, "ok", {}, [], [good, evaluation(5, 5, 0) | IMPOSSIBLE[reason]])
    rows = Store(store.root).load(record="evaluation", columns=["trial_id"]).to_pylist()
    assert {row["trial_id"] for row in rows} == set(IDS)
    said = capfd.readouterr().err
    assert said.count("left out") == 1
    assert f"left out: {store.folder.path(name)}: {reason}" in said


def test_a_test_set_may_hold_more_examples_than_outcomes_are_kept_of(tmp_path):
    store, many = Store(tmp_path), MAX_OUTCOMES + 9
    rows = evaluation(5, many, 0, many)
    kept = np.packbits(np.ones(MAX_OUTCOMES, bool)).tobytes()
    store.write(CONFIGS[0], "ok", {}, [], [rows | {"outcomes": kept}])
    assert list(Store(tmp_path).visible()) == IDS[:1]


def test_ok_without_evaluations_and_rows_under_another_name_are_left_out(store, capfd):
    config = override(CONFIGS[0], {"seed": 8})
    store.write(config, "ok", {})
    shutil.rmtree(store.folder.local / "packs")
    victim, donor = file_of(store, 0), file_of(store, 1)
    table = pq.read_table(donor).replace_schema_metadata(None)  # well-formed, without seal
    pq.write_table(table, victim)
    assert set(Store(store.root).visible()) == set(IDS[1:])
    said = capfd.readouterr().err
    assert "ok, but without evaluations" in said
    assert f"{victim}: its rows have trial_id {IDS[1]}" in said


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[1, 2]", "not a valid configuration"),
        (None, "not a valid configuration"),
        (json.dumps(flatten(CONFIGS[1])), f"its configuration is that of trial {IDS[1]}"),
    ],
)
def test_a_configuration_of_another_trial_is_left_out(store, capfd, text, reason):
    shutil.rmtree(store.folder.local / "packs")
    _write_config(file_of(store, 0), text)
    assert set(Store(store.root).visible()) == set(IDS[1:])
    assert reason in capfd.readouterr().err
    assert main(["why", IDS[0], "--results", store.root]) in (0, 2)


def _write_config(file: Path, text: str | None) -> None:
    """Replace a configuration in a file that loses its seal."""
    table = pq.read_table(file).replace_schema_metadata(None)
    column = pa.array([text] * table.num_rows, pa.string())
    place = table.column_names.index("config_json")
    pq.write_table(table.set_column(place, "config_json", column), file)


def test_own_code_is_not_imported_for_a_check(store, monkeypatch):
    shutil.rmtree(store.folder.local / "packs")
    file = file_of(store, 0)
    _write_config(file, json.dumps(flatten(CONFIGS[0]) | {"position.encoding": "evil:E"}))
    monkeypatch.setattr("importlib.import_module", lambda *a: pytest.fail("imported"))
    assert set(Store(store.root).visible()) == set(IDS)


# What follows


def test_a_packed_copy_outlives_its_shard(store, capfd):
    file = file_of(store, 0)
    rows = sorted(map(str, Store(store.root).load().to_pylist()))
    file.write_bytes(b"")
    assert sorted(map(str, Store(store.root).load().to_pylist())) == rows
    assert states(store) == ["done", "done", "done"]
    assert not capfd.readouterr().err


def test_bad_views_stop_no_command(store, capfd):
    views = store.folder.local / "views"
    shutil.copy(views / "tiny-smoke.parquet", views / "renamed-smoke.parquet")
    (views / "garbage.parquet").write_bytes(b"PAR1")
    (views / "noscale-.parquet").write_bytes(b"")
    empty = {"sweep": [], "scale": [], "cell": [], "cell_order": [], "trial_id": []}
    pq.write_table(pa.table(empty), views / "empty-smoke.parquet")
    row = {"sweep": "axes", "scale": "smoke", "cell": "a", "cell_order": 0, "trial_id": IDS[0]}
    pq.write_table(pa.Table.from_pylist([row | {"axes": "{"}]), views / "axes-smoke.parquet")
    for command in (["status"], ["why", IDS[0]], ["gc"]):
        assert main([*command, "--results", store.root]) == 0
    assert list(Store(store.root).views()) == [
        ("other", "smoke"),
        ("tiny", "smoke"),
    ]
    said = capfd.readouterr().err
    for name in ("renamed-smoke", "garbage", "noscale-", "empty-smoke", "axes-smoke"):
        assert said.count(f"{name}.parquet: ") == 1, said
    with pytest.raises(ValueError, match=r"no view 'empty-smoke' in .*; there: other-smoke, tiny"):
        Store(store.root).load_view("empty", "smoke")


@pytest.mark.parametrize(
    "text", ["{}", "[]", "null", '{"process": {}}', '{"process": 3}', "[" * 9999, "curve"]
)
def test_an_odd_small_file_stops_nothing(store, text):
    root = store.folder.local
    if text == "curve":  # all else is sound
        marker = json.loads((root / "running" / f"{IDS[1]}.json").read_text())
        text = json.dumps(marker | {"curve": [1]})
    (root / "running" / f"{IDS[0]}.json").write_text(text)
    (root / "running" / "...json").write_text(text)
    assert [one.trial_id for one in attempts_at(store.folder)] == [IDS[1]]
    assert main(["status", "--results", store.root]) == 0


def test_a_checkpoint_with_a_flipped_bit_is_no_checkpoint():
    data = bytearray(pack_model(CONFIGS[0], {"w": torch.arange(50.0)}))
    check_weights(bytes(data))
    data[data.index(torch.tensor([1.0, 2.0, 3.0]).numpy().tobytes())] ^= 1
    with pytest.raises(BadFile, match="no readable checkpoint"):
        check_weights(bytes(data))


# Only ours is touched


def test_nothing_is_written_read_or_deleted_behind_a_link(tmp_path):
    outside, root = tmp_path / "outside", tmp_path / "root"
    for folder in (outside, root):
        folder.mkdir()
    (outside / "theirs").write_text("theirs")
    (root / "views").symlink_to(outside)
    (root / "file").symlink_to(outside / "theirs")
    folder = Folder(root)
    assert folder.list() == folder.list("views") == []
    assert [e.name for e in folder.list(links=True)] == ["file", "views"]
    for name in ("views/new", "views/theirs", "../outside/theirs", "/x", "a//b"):
        with pytest.raises(StorageFailed):
            folder.write(name, b"ours")
        with pytest.raises(StorageFailed):
            folder.delete(name)
    for name in ("file", "views/theirs"):
        with pytest.raises(FileNotFoundError):
            folder.read(name)
    folder.write("file", b"ours")  # in place of the link
    assert (outside / "theirs").read_text() == "theirs"
    assert [file.name for file in outside.iterdir()] == ["theirs"]


def test_a_root_that_is_a_link_is_followed(tmp_path):
    store = make_store(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert Store(tmp_path / "link").visible().keys() == store.visible().keys()


def test_verify_names_every_bad_file_and_touches_none(store, capfd):
    root = store.folder.local
    shard, view = file_of(store, 2), root / "views" / "tiny-smoke.parquet"
    for file in (shard, view):
        file.write_bytes(file.read_bytes()[:-20] + bytes(20))
    pack = next((root / "packs").glob("*"))
    pack.write_bytes(pack.read_bytes() + b"x")
    (root / "running" / f"{IDS[2]}.json").symlink_to("/etc/hostname")
    count = sum(1 for _ in root.rglob("*.*"))
    assert main(["verify", "--results", store.root]) == 1
    said = capfd.readouterr().out
    assert "4 bad" in said, said
    for name in (shard, view, pack, root / "running" / f"{IDS[2]}.json"):
        assert f"  {name.relative_to(root)}: " in said
    assert sum(1 for _ in root.rglob("*.*")) == count
    assert states(store) == ["done", "done", "missing"]


def test_a_merge_takes_what_is_ours_and_sound_and_follows_no_link(store, tmp_path, capfd):
    source, target, theirs = store.folder.local, tmp_path / "target", tmp_path / "theirs"
    make_store(theirs)
    bad = file_of(store, 0)
    bad.write_bytes(bad.read_bytes()[:-20] + bytes(20))
    shutil.rmtree(source / "packs")
    (source / "checkpoints" / "notes.txt").write_text("theirs")
    (source / "checkpoints" / IDS[1]).symlink_to(theirs / "checkpoints" / IDS[0])
    (source / "views" / "linked-smoke.parquet").symlink_to("/etc/hostname")
    (source / "views" / "garbage-smoke.parquet").write_bytes(b"garbage")
    assert main(["merge", str(source), str(target)]) == 0
    copied = {str(file.relative_to(target)) for file in target.rglob("*") if file.is_file()}
    assert not [name for name in copied if "notes" in name or "linked" in name or "garbage" in name]
    assert not [name for name in copied if name.startswith(f"checkpoints/{IDS[1]}")]
    assert set(Store(target).visible()) == set(IDS[1:])
    said = capfd.readouterr().err
    assert bad.name in said
    assert "garbage-smoke.parquet" in said
    target.joinpath("trials").rename(tmp_path / "moved")
    target.joinpath("trials").symlink_to(tmp_path / "moved")
    assert main(["merge", str(theirs), str(target)]) == 1, "the target has a link"
    assert "trials is a link, which is not followed" in capfd.readouterr().err
