"""`pcore new` writes classes that pass the checks, which find broken ones."""

import sys

import pytest

KINDS = ("encoding", "task", "attention", "mixer")


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.mark.parametrize("kind", KINDS)
def test_what_new_writes_is_called_as_asked_and_passes_its_checks(pcore, tmp_path, kind):
    name = f"new_{kind}:Mine"
    code, out, _ = pcore("new", kind, name)
    assert code == 0
    assert f"pcore check-{kind} {name}\n" in out
    assert "class Mine(" in (tmp_path / f"new_{kind}.py").read_text()
    code, out, _ = pcore(f"check-{kind}", name)
    assert (code, "FAIL" in out) == (0, False)


def test_new_writes_into_a_package_that_exists(pcore, tmp_path):
    (tmp_path / "mine").mkdir()
    assert pcore("new", "mixer", "mine.mixers:Mine")[0] == 0
    assert (tmp_path / "mine" / "mixers.py").is_file()


@pytest.mark.parametrize(
    ("kind", "name", "reason"),
    [
        ("mixer", "there:Mine", "there.py exists, and stays as it is"),
        ("mixer", "nowhere.mine:Mine", "no folder nowhere"),
        ("encoding", "my-code:Mine", "is not module:Class; for example my_encoding:Encoding"),
        ("encoding", "mine", "is not module:Class"),
        ("mixture", "mine:Mine", "invalid choice: 'mixture'"),
        ("task", "string:Rotate", "string is a module of Python's"),
    ],
)
def test_new_refuses_and_changes_nothing(pcore, tmp_path, kind, name, reason):
    (tmp_path / "there.py").write_text("mine = 1\n")
    code, out, err = pcore("new", kind, name)
    assert (code, out) == (2, "")
    assert reason in err
    assert [path.name for path in tmp_path.iterdir()] == ["there.py"]
    assert (tmp_path / "there.py").read_text() == "mine = 1\n"


def test_a_conforming_task_and_encoding_pass(pcore):
    code, out, _ = pcore("check-task", "copy")
    assert (code, "FAIL" in out) == (0, False)
    code, out, _ = pcore("check-encoding", "none")
    assert (code, "FAIL" in out) == (0, False)


def test_own_code_beside_the_person_is_found_and_its_failure_is_exit_code_1(pcore, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\nfrom pcore.encodings import Encoding\n"
        "class Leaky(Encoding):\n    uses_ids = True\n"
        "    def embed(self, ids):\n        return torch.rand(*ids.shape[:2], 32)\n"
    )
    code, out, _ = pcore("check-encoding", "mine:Leaky")
    assert code == 1
    assert "FAIL" in out
