"""What cannot work is refused in one sentence with exit code 2, before anything runs.

Refusals that need no file are a list: tests/snapshots/refusals/pcore.txt.
"""

import copy
import io
import sys
import time
import zipfile
from functools import reduce

import pytest
import torch

from pcore.checkpoint import load_archive
from tests.fuzz.world import SCRIPTS


def assert_refused(answer, message):
    """One sentence with this message, and exit code 2."""
    code, out, err = answer
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{folder}"], "is a folder, not a checkpoint file; it holds m.pt"),
        (["{file}", "--length", "19"], "position.max_position=20 is below 21, which addition at"),
        (["{file}", "--length", "0"], "length 0 is not in 1-10000"),
        (["{file}", "--length", "1000000000"], "length 1000000000 is not in 1-10000"),
        (["{file}", "--length", "6", "--second", "0"], "second length 0 is not in 1-10000"),
        (["{file}", "--examples", "0"], "--examples 0 is below 1"),
        (["{file}", "--device", "meta"], "device 'meta' is not available here"),
    ],
    ids=str,
)
def test_what_a_model_cannot_be_asked_is_refused(save, pcore, words, message):
    file = save()
    words = [str(word).format(file=file, folder=file.parent) for word in words]
    assert_refused(pcore("explain", *words), message)


@pytest.mark.parametrize(
    "changes",
    [
        {"position.encoding": "rotary", "position.test_policy": "random"},
        {"position.encoding": "none", "position.ids": "randomized"},
    ],
)
def test_what_holds_ids_in_training_limits_every_question(save, pcore, changes):
    file, long = save(changes), "1" * 19
    assert_refused(pcore("explain", file, "--length", "19"), "position.max_position=20 is below")
    assert_refused(pcore("solve", file, f"{long}+{long}"), "has position IDs up to 20, below")


def test_a_task_with_one_length_is_asked_for_no_second(save, pcore):
    answer = pcore("explain", save({"task.name": "copy"}), "--length", "6", "--second", "2")
    assert_refused(answer, "second length 2: copy has only one length")


# Checkpoints ------------------------------------------------------------------------------------


def change_payload(file, change):
    """Write a checkpoint anew after `change` has edited what is in it."""
    payload = torch.load(file, weights_only=True)
    change(payload)
    torch.save(payload, file)
    return file


def spoil_with_nan(payload):
    payload["model"]["embedding"][3, 1] = float("nan")


def widen(payload):
    payload["config"]["model.d_model"] = 10**12


def pretend(payload):
    """Gigabytes of weights, those of one matrix as one number on the disk."""
    payload["config"] |= {"model.d_model": 10_000, "model.d_ff": 20_000}
    payload["model"]["blocks.0.feed_forward.w0"] = torch.ones(1, 1).expand(20_000, 10_000)


FULL_NAMES = {"model.mixer": "pcore.model:SelfAttention", "task.name": "pcore.tasks:Addition"}
BROKEN = {
    "weights of another shape": (
        lambda payload: payload["model"].update(embedding=torch.zeros(3, 3)),
        "weights and configuration do not fit: size mismatch for embedding",
    ),
    "nan": (spoil_with_nan, "some weights are not finite"),
    "too large a model": (widen, "model.d_model=1000000000000 is above 100000"),
    "more weights than bytes": (pretend, "bytes of weights are more than the"),
    "no configuration": (lambda payload: payload.pop("config"), "is not a model checkpoint of"),
    "an endless list of lengths": (
        lambda payload: payload["config"].update({"eval.test_lengths": "1-100000," * 10_000}),
        "eval.test_lengths names 1,000,000,000 values, above 10,000",
    ),
    "more weights than bytes, with full names": (
        lambda payload: (pretend(payload), payload["config"].update(FULL_NAMES)),
        "bytes of weights are more than the",
    ),
    "lists of lists": (
        lambda payload: payload["config"].update(seed=reduce(lambda x, _: 9 * [x], range(99), [])),
        "is not a model checkpoint of pcore",
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_checkpoint_is_one_sentence(save, pcore, fault):
    change, message = BROKEN[fault]
    assert_refused(pcore("solve", change_payload(save(), change), "1+1"), message)


def test_a_file_of_compressed_zeros_is_refused_before_it_is_inflated(save, pcore):
    file, pack = save(), zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(file, "a", pack) as archive, archive.open("archive/x", "w") as part:
        for _ in range(200):  # 200 MB
            part.write(bytes(2**20))
    begin = time.process_time()
    assert_refused(pcore("solve", file, "1+1"), "is not a readable checkpoint (ValueError)")
    assert time.process_time() - begin < 0.5


def test_a_file_whose_parts_are_larger_than_it_is_refused():
    """Many entries of a directory may name the same bytes."""
    torch.save({"config": {}, "model": torch.zeros(10**5)}, file := io.BytesIO())
    with zipfile.ZipFile(file, "a") as archive:
        for number, part in enumerate(2 * archive.filelist):
            archive.filelist.append(part := copy.copy(part))
            part.filename = f"more{number}"
        archive._didModify = True
    with pytest.raises(ValueError, match="its parts are larger than the file"):
        load_archive(file.getvalue())


# Code -------------------------------------------------------------------------------------------

OWN_TASK = """
from pcore.tasks import Task
class Unfinished(Task):
    def draw(self, sizes, rng): ...
    def layout(self, shape): ...
    @property
    def vocab(self): ...
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder of a person, for a module of own code."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "own_task", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("os:abort", "task 'os:abort' is not a subclass of pcore.tasks.base:Task"),
        ("os:path.join", "module 'os' has no 'path.join'"),
        (".os:abort", "cannot import '.os'"),
    ],
)
def test_even_trusted_names_are_called_only_if_they_are_of_the_right_kind(
    save, pcore, name, message
):
    """A call of `os.abort` would end the tests."""
    file = change_payload(save(), lambda payload: payload["config"].update({"task.name": name}))
    assert_refused(pcore("solve", file, "1+1", "--trust-code"), message)


def test_no_memory_is_one_sentence(save, pcore, monkeypatch):
    def fail(*rest):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to")

    monkeypatch.setattr("pcore.cli.trained.solve_query", fail)
    assert_refused(pcore("solve", save(), "1+1"), "not enough memory: DefaultCPUAllocator: can't")


OWN = {  # source of own_task, class, what is said
    "unfinished": (OWN_TASK, "Unfinished", "is not a valid task: TypeError: Can't instantiate"),
    "fails": (SCRIPTS["own.py"], "Raises", "KeyError: 'not today' (own_task.py, line 18, in __in"),
    "shape": (SCRIPTS["own.py"], "Wrong", "own_task:Wrong': RuntimeError: The size of tensor"),
    "no response": (SCRIPTS["own.py"], "Silent", "own_task:Silent at length 2 has an empty resp"),
    "raises": ("1 / 0\n", "Mine", "cannot import 'own_task': ZeroDivisionError: division by zero"),
}


@pytest.mark.parametrize("kind", OWN)
def test_own_code_that_cannot_train_is_named_in_one_sentence(pcore, folder, kind):
    source, name, said = OWN[kind]
    (folder / "own_task.py").write_text(source)
    flag = "--position.encoding" if name in ("Raises", "Wrong") else "--task"
    code, _, err = pcore("train", "--preset", "small", flag, f"own_task:{name}")
    assert code == 2
    assert said in err
    assert err.count("\n") == 1
