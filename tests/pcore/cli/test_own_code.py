"""`pcore new` writes classes that pass the checks, which find broken ones."""

import sys

import pytest

CELLS = {  # of the command that makes its row in a table
    "encoding": '--only coupling --only NoPE --add "Mine=coupling+position.encoding={0}"',
    "task": '--only "Mine, *" --add "Mine, coupling=coupling+task.name={0}" '
    '--add "Mine, NoPE=NoPE+task.name={0}"',
    "attention": "--only coupling --axis model.attention=softmax,{0}",
    "mixer": "--only coupling --axis model.mixer=attention,{0}",
}
MISTAKES = {  # in the template of a task: how it is changed, and what the check says
    "ten": ({"carry, 7)": "carry, 10)"}, "not all of the answer is in 0123456"),
    "separator": ({'EXTRA = ""': 'EXTRA = "+"'}, "len(set(self.symbols)) == len(self.symbols) ("),
    "cut": ({"range(self.answer_length(length))": "range(length)"}, "end of the answer cut off?"),
    "longer": ({"return length + 1": "return length"}, "answer_length says 1 symbols"),
    "uncut": (
        {"shape = (NUM_STRINGS, length)": "shape = (NUM_STRINGS, int(sizes.max()))"},
        "an example of length 1 has 14 tokens beside one of length 3, and at most 8 alone",
    ),
    "unseen": (
        {"for string in range(NUM_STRINGS):": "for string in (1,):"},
        "is all that they depend on in the layout?",
    ),
    "swapped": ({"self.contents([strings])": "self.contents([strings[::-1]])"}, "comes back as"),
}
ROWS, END = "torch.tensor(rows, device=device)", "self.vocab.index[BOUNDARY]"
PLACED = "layout.add(Symbol(NUM_STRINGS, i), i + 1)"
UNFIT = {  # the same, of contents that do not fit the layout
    "narrow": ({ROWS: f"{ROWS}[:, :, :-1]"}, "but draw makes 3 fields of"),
    "from zero": ({ROWS: f"{ROWS} - 1"}, "where draw puts 0; 0 is PAD"),
    "the end": ({ROWS: f"{ROWS} * 0 + {END}"}, "'$', the first or last token of an example"),
    "a separator": ({ROWS: f"{ROWS} * 0 + {END} - 1"}, "'=', which layout places as a separator"),
    "unknown": ({PLACED: 'layout.add("→", i + 1)'}, "'→', which is not in the vocabulary"),
    "no ID": ({PLACED: "layout.add('0')"}, "0 relative IDs instead of 1: add(symbol, an ID for"),
    "empty": ({PLACED: "layout.relative_ids[:] = [(-1,)] * 9"}, "has other numbers of symbols and"),
    "level": (
        {"length - i)": "-1)", '"=", 0)': '"=", -1)', "i + 1)  #": "-1)  #"},
        "gives level 'position' the relative IDs (-1, -1",
    ),
    "no query": (
        {"layout.end_query()": "pass"},
        "does not say where the query ends: call end_query",
    ),
    "flat shapes": ({"), sizes)": "), sizes[:, 0])"}, "draw returned shapes of shape ("),
    "two sizes": (
        {"(length,), layout": "(length, _), layout", "), sizes)": "), sizes.repeat(1, 2))"},
        "(override it if shapes have more numbers), raises ValueError: not",
    ),
}


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    (tmp_path / "package").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.mark.parametrize("kind", CELLS)
def test_what_new_writes_is_called_as_asked_and_passes_its_checks(pcore, tmp_path, kind):
    name = f"package.new_{kind}:Mine"
    code, out, _ = pcore("new", kind, name)
    assert code == 0
    row = "python -m sweeps run encoding_ablation --name Mine --scale smoke"
    assert f"  {row} {CELLS[kind].format(name)}  # its row in a table\n" in out
    assert "class Mine(" in (tmp_path / "package" / f"new_{kind}.py").read_text()
    code, out, _ = pcore(f"check-{kind}", name)
    assert (code, "FAIL" in out) == (0, False)


@pytest.mark.parametrize("kind", [*MISTAKES, *UNFIT])
def test_a_planted_mistake_in_the_task_does_not_pass(pcore, tmp_path, kind):
    changes, why = (MISTAKES | UNFIT)[kind]
    module = f"wrong_{kind.replace(' ', '_')}"
    pcore("new", "task", f"{module}:Mine")
    text = (tmp_path / f"{module}.py").read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    (tmp_path / f"{module}.py").write_text(text)
    code, out, _ = pcore("check-task", f"{module}:Mine")
    assert code == 1
    assert why in out
    assert "Are its answers right?" not in out
    if kind in UNFIT:
        assert out.count("FAIL") == out.count("FAIL  contents hold the layout") == 1
        assert "(5 more checks need this one first)" in out


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
    assert right.count("  as expected\n") == 2
    assert "  token        $ 6 5 3 + 0 4 6 = 2 3 0 1 $\n" in right
    assert "  relative ID  . 3 2 1 0 3 2 1 0 1 2 3 4 .\n  token        $ 6 + 6 = 5 1 $\n" in right
    assert "QUERY" not in right
    assert "note: " not in right
    wrong_answers = ["653+046=1032", "653+046=2302", "653-046=2301", "653+046=230", "653+046=2381"]
    code, wrong, _ = pcore(*check, *wrong_answers, "653+046=2301")
    assert code == 1
    assert wrong.endswith("answered:Mine: 5 of 14 checks failed\n")
    told = "the task says 653+046=2301"
    assert f"expected 1032, but {told}, the same backwards: which order is meant?\n" in wrong
    assert f"expected 2302, but {told}\n" in wrong
    assert f"expected 230, but {told}, 4 symbols instead of 3\n" in wrong
    assert "expected 2381, but 8 is no symbol of the task\n" in wrong
    one_length = "needs 2 x 0123456, of one length, as in 01+01 (answered.py, line "
    assert one_length in wrong
    code, typed_otherwise, _ = pcore("check-task", "addition", "653+49=2070")
    assert code == 0
    assert "  as expected; the model sees 653+049=2070\n" in typed_otherwise


def test_an_equals_sign_with_an_id_of_the_answer_is_noticed(pcore, tmp_path):
    pcore("new", "task", "shifted:Mine")
    file = tmp_path / "shifted.py"
    file.write_text(file.read_text().replace("Symbol(NUM_STRINGS, i), i + 1)", "Symbol(2, i), i)"))
    code, out, _ = pcore("check-task", "shifted:Mine", "653+046=2301")
    assert code == 0
    assert "note: '=' shares an ID with a symbol of the answer: is that meant?\n" in out


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("spelt:Maximum", "has no 'Maximum'. Known: Mine, Yours."),
        ("spelt:Mina", "has no 'Mina'. Did you mean 'Mine'?"),
        ("bare:Mine", "has no 'Mine'. Known: LIMIT."),
        ("spelt.Mine", "unknown task 'spelt.Mine'. Did you mean 'spelt:Mine'?"),
    ],
)
def test_of_a_misspelt_class_the_classes_of_its_module_are_named(pcore, tmp_path, name, hint):
    (tmp_path / "spelt.py").write_text(
        "from pcore.tasks import Task\nLIMIT = 1\nclass Mine: pass\nclass Yours: pass\n"
    )
    (tmp_path / "bare.py").write_text("LIMIT = 1\n")
    code, _, err = pcore("show", name, "1+1")
    assert code == 2
    assert err.endswith(f"{hint}\n")
    code, out, _ = pcore("check-task", name)
    assert code == 1
    assert hint in out.splitlines()[0]


def test_new_refuses_and_changes_nothing(pcore, tmp_path):
    """Of other refusals: tests/snapshots/refusals/pcore.txt."""
    (tmp_path / "there.py").write_text("mine = 1\n")
    code, out, err = pcore("new", "mixer", "there:Mine")
    assert (code, out) == (2, "")
    assert "there.py exists, and stays as it is; name another module: trials know a class by" in err
    assert {path.name for path in tmp_path.iterdir()} == {"package", "there.py"}
    assert (tmp_path / "there.py").read_text() == "mine = 1\n"


def test_a_model_of_code_that_changed_says_so_and_is_not_overwritten(pcore, tmp_path, monkeypatch):
    pcore("new", "task", "edited:Mine")
    training = ("train", "--preset", "small", "--task", "edited:Mine", "--num-steps", 2)
    training += ("--position.encoding", "none", "--out", "m.pt")
    asking = ("solve", "m.pt", "1+1", "--trust-code")
    assert pcore(*training)[0] == 0
    before, (_, answer, silent) = (tmp_path / "m.pt").read_bytes(), pcore(*asking)
    with (tmp_path / "edited.py").open("a") as file:
        file.write("# edited\n")
    monkeypatch.delitem(sys.modules, "edited")
    assert silent == ""
    assert pcore(*asking) == (0, answer, "warning: m.pt was trained with other code than now\n")
    assert "is the model of another trial" in pcore(*training)[2]
    assert (tmp_path / "m.pt").read_bytes() == before
