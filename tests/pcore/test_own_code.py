"""Own code is part of a trial's identity, with what it imports from beside its file."""

import importlib
import sys
from dataclasses import dataclass

import pytest

from pcore.config import TrialConfig, override, trial_id
from pcore.conformance import check
from pcore.encodings import Encoding
from pcore.registry import source_hash
from pcore.tasks.addition import Addition
from pcore.tasks.strings import Copy
from pcore.validation import validate

BIAS = "from pcore.encodings import Encoding\n{}\n\n\nclass Slope(Encoding):\n    slope = {}\n"


@pytest.fixture
def identity(tmp_path, monkeypatch):
    """Write modules by name and import `mine` or `mine.bias` afresh: the id of a trial with it."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def forget():
        for name in [n for n in sys.modules if n.partition(".")[0] in ("mine", "helps", "deep")]:
            del sys.modules[name]

    def write(modules: dict[str, str], name: str = "mine:Slope") -> str:
        for file, text in modules.items():
            (tmp_path / file).parent.mkdir(exist_ok=True)
            (tmp_path / file).write_text(text)
        forget()
        importlib.invalidate_caches()
        return trial_id(override(TrialConfig(), {"position.encoding": name}))

    yield write
    forget()


@pytest.mark.parametrize(
    ("own", "name", "imports", "helper"),
    [
        ("mine.py", "mine:Slope", "from helps import SLOPE", "helps.py"),
        ("mine.py", "mine:Slope", "import helps as h\nSLOPE = h.SLOPE", "helps.py"),
        ("mine.py", "mine:Slope", "from helps.deep import SLOPE", "helps/deep.py"),
        ("mine.py", "mine:Slope", "from helps import SLOPE", "helps/__init__.py"),
        ("mine/bias.py", "mine.bias:Slope", "from .helps import SLOPE", "mine/helps.py"),
        ("mine/bias.py", "mine.bias:Slope", "from . import helps\nSLOPE = 1", "mine/helps.py"),
        ("mine/bias.py", "mine.bias:Slope", "from mine.helps import SLOPE", "mine/helps.py"),
    ],
)
def test_a_constant_in_a_module_beside_it_makes_another_trial(identity, own, name, imports, helper):
    text = BIAS.format(imports, "SLOPE")
    first = identity({own: text, helper: "SLOPE = 1.0\n"}, name)
    assert identity({}, name) == first
    assert identity({helper: "SLOPE = 2.0\n"}, name) != first


def test_a_module_behind_a_module_counts_and_one_that_nobody_imports_does_not(identity):
    text = BIAS.format("from helps import SLOPE", "SLOPE")
    first = identity({"mine.py": text, "helps.py": "import deep\nSLOPE = 1", "deep.py": "N = 1"})
    assert identity({"other.py": "N = 1", "pcore.py": "N = 1"}) == first
    assert identity({"deep.py": "import mine, helps\nN = 2"}) != first


def test_the_module_that_names_a_class_counts(identity):
    two = BIAS.format("", 1.0) + "class Steep(Slope):\n    slope = 2.0\n"
    first = identity({"helps.py": two, "mine.py": "from helps import Slope as Best"}, "mine:Best")
    assert identity({"mine.py": "from helps import Steep as Best"}, "mine:Best") != first


def test_a_helper_beside_a_link_counts(identity, tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "mine.py").write_text(BIAS.format("from helps import SLOPE", "SLOPE"))
    (tmp_path / "mine.py").symlink_to("theirs/mine.py")
    assert identity({"helps.py": "SLOPE = 1.0"}) != identity({"helps.py": "SLOPE = 2.0"})


def test_a_class_without_helpers_has_the_id_it_always_had(identity):
    """The trial of this text at 956b19b."""
    assert identity({"mine.py": BIAS.format("", 1.0)}) == "cf944ebba6affe29"


@dataclass(frozen=True, kw_only=True)
class Clash(Copy):
    """An option of a shipped task's name and another type."""

    scratchpad: str = "none"


class Plain(Copy):
    """An option that is none, since the class is no dataclass of its own."""

    scratchpad: bool = True


@dataclass(frozen=True, kw_only=True)
class Opts(Copy):
    """Options that no shipped task has."""

    flavour: str = "plain"


def test_an_option_that_has_no_column_of_its_type_is_refused_before_anything_runs():
    said = f"task.scratchpad: {__name__}:Clash has an option of type str, that of addition is bool"
    with pytest.raises(ValueError, match=said):
        trial_id(TrialConfig(task=Clash()))
    with pytest.raises(ValueError, match=said):
        trial_id(override(TrialConfig(), {"task.name": f"{__name__}:Clash"}))
    (failed,) = check("task", f"{__name__}:Clash")
    assert (failed.name, said in failed.detail) == ("constructs with defaults", True)
    with pytest.raises(ValueError, match="Plain: 'scratchpad' is no option without @dataclass"):
        trial_id(TrialConfig(task=Plain()))
    assert trial_id(TrialConfig(task=Opts()))


class Silent(Encoding):
    """It does not say that it reads IDs."""

    def embed(self, ids):
        return ids.float()


@dataclass(frozen=True, kw_only=True)
class TwoLengths(Addition):
    """The second length that is asked for is ignored, and those trained are not said."""

    def sizes_at(self, length, second=None):
        return (length,) * 2

    def trained_seconds(self, low, high):
        return None


@dataclass(frozen=True, kw_only=True)
class SaysWhich(TwoLengths):
    def trained_seconds(self, low, high):
        return range(2, 3)


def test_what_own_code_leaves_out_is_refused(tiny_config):
    changes = {"position.encoding": f"{__name__}:Silent"}
    with pytest.raises(ValueError, match=r"has embed\(\) and does not say whether it reads IDs"):
        validate(override(tiny_config, changes))
    changes = {"task.name": f"{__name__}:TwoLengths", "eval.second_lengths": "2,3"}
    with pytest.raises(ValueError, match=r"TwoLengths has no trained_seconds\(\)"):
        validate(override(tiny_config, changes))
    for name, said in (("TwoLengths", "no second lengths"), ("SaysWhich", "is (3, 3) for second")):
        (failed,) = (found for found in check("task", f"{__name__}:{name}") if not found.passed)
        assert said in failed.detail


def test_a_class_without_a_file_is_refused():
    homeless = type("Homeless", (Copy,), {"__module__": "__main__nowhere"})
    sys.modules["__main__nowhere"] = type(sys)("__main__nowhere")
    try:
        with pytest.raises(ValueError, match="put the class in a file"):
            source_hash(homeless, "__main__nowhere")
    finally:
        del sys.modules["__main__nowhere"]
