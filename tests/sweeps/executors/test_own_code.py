"""Own code that workers lack, or have in another version, is named before the first trial."""

import pytest

from pcore.config import TrialConfig, override
from sweeps.engine.executors import ray_cluster
from sweeps.engine.executors.ray_cluster import check_own_code, hash_own_code

OWN = f"{__name__}:Own"
CONFIGS = [TrialConfig(), override(TrialConfig(), {"position.encoding": OWN})]


class Own: ...


def test_a_name_that_cannot_be_imported_has_the_kind_of_its_error():
    hashes = hash_own_code([OWN, "nowhere:Own", f"{__name__}:Other"])
    own, *others = hashes.values()
    assert len(own) == 16
    assert others == ["ModuleNotFoundError", "ValueError"]


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (
            "ModuleNotFoundError",
            f"workers on node far cannot import {__name__}, own code of these trials "
            r"\(ModuleNotFoundError\): start in its folder, or name it in PYTHONPATH",
        ),
        ("0123456789abcdef", f"own code differs: {__name__} on node far is another file than here"),
    ],
)
def test_the_first_node_that_differs_is_named(monkeypatch, there, said):
    def ask(question, names):
        yield "near", question(names)
        yield "far", dict.fromkeys(names, there)

    monkeypatch.setattr(ray_cluster, "ask_nodes", ask)
    with pytest.raises(ValueError, match=said):
        check_own_code(CONFIGS)


def test_trials_without_own_code_ask_no_node(monkeypatch):
    monkeypatch.setattr(ray_cluster, "ask_nodes", None)
    check_own_code(CONFIGS[:1])
