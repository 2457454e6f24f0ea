"""What nodes lack is named before the first trial: own code, or room."""

import pytest

from pcore.config import TrialConfig, override
from sweeps.engine.executors import Executor, ray_cluster
from sweeps.engine.executors.ray_cluster import check_own_code, count_slots, hash_own_code

OWN = f"{__name__}:Own"
CONFIGS = [TrialConfig(), override(TrialConfig(), {"position.encoding": OWN})]


class Own: ...


def test_a_name_that_cannot_be_imported_has_the_kind_of_its_error():
    hashes = hash_own_code([OWN, "nowhere:Own", f"{__name__}:Other"])
    own, *others = hashes.values()
    assert len(own) == 16
    assert others == ["ModuleNotFoundError", "ValueError"]


def test_the_first_node_that_cannot_import_own_code_is_named(monkeypatch):
    def ask(question, names):
        yield "near", question(names)
        yield "far", dict.fromkeys(names, "ModuleNotFoundError")

    said = rf"workers on node far cannot import {__name__}, own code of these trials \(ModuleNotFou"
    monkeypatch.setattr(ray_cluster, "ask_nodes", ask)
    with pytest.raises(ValueError, match=said):
        check_own_code(CONFIGS)


def test_a_trial_has_to_fit_into_one_node():
    resources = ({"CPU": 3.0, "GPU": 1.0}, {"CPU": 2.0})
    nodes = [{"Alive": True, "Resources": have} for have in resources]
    assert count_slots(Executor(cpus=1.0), nodes) == 5
    assert count_slots(Executor(cpus=2.0), nodes) == 2
    assert count_slots(Executor(cpus=1.0, gpus=0.5), nodes) == 2
    needs = r"one trial needs 1 CPU and 64 GPU on one node; the nodes have: 3 CPU, 1 GPU; 2 CPU, 0"
    with pytest.raises(ValueError, match=needs):
        count_slots(Executor(cpus=1.0, gpus=64.0), nodes)
