"""`pcore new` writes classes that pass the checks, which find broken ones."""

import sys

import pytest

FIELDS = {
    "encoding": "position.encoding",
    "task": "task.name",
    "attention": "model.attention",
    "mixer": "model.mixer",
}
MISTAKES = {  # in the template of a task: how a line is changed, and what the check says
    "ten": ("carry, BASE)", "carry, 10)", "answer gives [9, 0], which are not all digits below 9"),
    "borrow": ("a + b + carry", "a - b - carry", "-1], which are not all digits below 9"),
    "drawn": ("randint(BASE", "randint(10", "the query holds '+', which layout places as"),
    "letters": (
        "BASE = len(",
        "BASE = 3 + len(",
        "Are digits larger than the vocabulary has them?",
    ),
    "cut": (
        "range(self.answer_length(length))",
        "range(length)",
        "is the end of the answer cut off?",
    ),
    "longer": ("return length + 1", "return length", "answer gives 2 digits, answer_length says 1"),
    "shorter": ("[*digits, carry]", "digits", "answer gives 1 digits, answer_length says 2"),
    "uncut": (
        "(a[:size], b[:size])",
        "(a, b)",
        "an example of length 1 has 14 tokens beside one of length 3, and at most 8 alone",
    ),
    "swapped": ("reversed(n)", "n", "comes back as"),
}


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.mark.parametrize("kind", FIELDS)
def test_what_new_writes_is_called_as_asked_and_passes_its_checks(pcore, tmp_path, kind):
    name = f"new_{kind}:Mine"
    code, out, _ = pcore("new", kind, name)
    assert code == 0
    is_task = kind == "task"
    examples = (
        " QUERY=ANSWER  # some that you worked out; prints which symbols share an ID"
        if is_task
        else ""
    )
    assert f"pcore check-{kind} {name}{examples}\n" in out
    only = '"Mine*"' if is_task else "coupling"
    assert f'--only {only} --add "Mine=coupling+{FIELDS[kind]}={name}"' in out
    assert (f'--add "Mine, NoPE=NoPE+{FIELDS[kind]}={name}"' in out) == is_task
    assert "class Mine(" in (tmp_path / f"new_{kind}.py").read_text()
    code, out, _ = pcore(f"check-{kind}", name)
    assert (code, "FAIL" in out) == (0, False)


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_planted_mistake_in_the_task_does_not_pass(pcore, tmp_path, kind):
    """In base 9 a digit that is drawn too large, 9, is the symbol after the last digit."""
    old, new, why = MISTAKES[kind]
    pcore("new", "task", f"wrong_{kind}:Mine")
    file = tmp_path / f"wrong_{kind}.py"
    right = file.read_text().replace('"0123456"', '"012345678"')
    assert old in right
    file.write_text(right.replace(old, new))
    code, out, _ = pcore("check-task", f"wrong_{kind}:Mine")
    assert code == 1
    assert why in out
    assert "Are its answers right?" not in out


def test_answers_are_compared_with_those_expected(pcore):
    pcore("new", "task", "answered:Mine")
    check = ("check-task", "answered:Mine")
    code, out, _ = pcore(*check)
    assert code == 0
    assert out.endswith(
        "Are its answers right? Name some: pcore check-task answered:Mine QUERY=ANSWER\n"
    )
    code, right, _ = pcore(*check, "653+046=2301", " 6+6 = 51")
    assert code == 0
    assert right.count("as expected, with ID 0: + =, ID 1: ") == 2
    assert "  as expected, with ID 0: + =, ID 1: 6 6 | 5, ID 2: | 1\n" in right
    assert "QUERY" not in right
    code, wrong, _ = pcore(*check, "653+046=1032", "653+046=2302", "653-046=2301", "653+046=2301")
    assert code == 1
    assert wrong.endswith("answered:Mine: 3 of 19 checks failed\n")
    told = "the task says 653+046=2301"
    assert f"expected 1032, but {told}, the same backwards: which order is meant?\n" in wrong
    assert f"expected 2302, but {told}\n" in wrong
    assert "needs 0123456 and equal lengths (add 0s), as in 10+01 (answered.py, line " in wrong


def test_queries_that_one_layer_cannot_tell_apart_are_named(pcore, tmp_path):
    """Differences depend on the order of two digits with one ID; sums do not."""
    pcore("new", "task", "sums:Mine")
    text = (tmp_path / "sums.py").read_text()
    minus = text.replace("a + b + carry", "a - b + carry").replace("length + 1", "length")
    (tmp_path / "differences.py").write_text(minus.replace("[*digits, carry]", "digits"))
    note = "have the same symbols with the same IDs in their queries: one layer cannot tell these"
    assert note not in pcore("check-task", "sums:Mine")[1]
    code, out, _ = pcore("check-task", "differences:Mine", "0+1=6")
    assert code == 0
    told, command = out.splitlines()[-2:]
    assert told.startswith("note: ")
    assert note in told
    assert command.count("+task.name=differences:Mine+model.num_layers=2") == 2


@pytest.mark.parametrize("example", ["653+046", "=1", "653+046="])
def test_an_example_without_query_or_answer_is_refused(pcore, example):
    code, out, err = pcore("check-task", "addition", example)
    assert (code, out) == (2, "")
    assert err == f"pcore: {example!r} is not QUERY=ANSWER, such as 653+49=2070\n"


@pytest.mark.parametrize("words", ["check-task {}", "check-mixer {}", "show {} 1+1"])
def test_of_a_misspelt_class_the_classes_of_its_module_are_named(pcore, tmp_path, words):
    (tmp_path / "spelt.py").write_text(
        "from pcore.tasks import Task\nLIMIT = 1\nclass Mine: pass\nclass Yours: pass\n"
    )
    (tmp_path / "bare.py").write_text("LIMIT = 1\n")
    for name, hint in (
        ("spelt:Maximum", "Known: Mine, Yours."),
        ("spelt:Mina", "Did you mean 'Mine'?"),
        ("bare:Mine", "It defines no class."),
    ):
        code, _, err = pcore(*words.format(name).split())
        assert code == 2
        assert err.endswith(f"has no {name.partition(':')[2]!r}. {hint}\n")


def test_new_writes_into_a_package_that_exists(pcore, tmp_path):
    (tmp_path / "mine").mkdir()
    assert pcore("new", "mixer", "mine.mixers:Mine")[0] == 0
    assert (tmp_path / "mine" / "mixers.py").is_file()


@pytest.mark.parametrize(
    ("kind", "name", "reason"),
    [
        (
            "mixer",
            "there:Mine",
            "there.py exists, and stays as it is; name another module: trials know a class by",
        ),
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
