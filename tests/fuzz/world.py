"""The folder that fuzzed command lines run in: a store, models, scripts, own code; good and bad."""

from pathlib import Path

import torch

from pcore.checkpoint import pack_state, save_model
from pcore.config import TrialConfig, override
from pcore.model import make_model
from pcore.training import train
from sweeps.depth_ablation import SWEEP
from sweeps.engine.launch.launch import view_rows
from sweeps.engine.plan import make_plan
from sweeps.engine.store.store import Store
from tests.support.rows.example_store import make_evaluation, write_trial
from tests.support.tiny_config import TINY

SCRIPTS = {
    "good.py": "from sweeps.depth_ablation import SWEEP\n",
    "raises.py": "1 / 0\n",
    "syntax.py": "def (:\n",
    "nothing.py": "x = 1\n",
    "cells.py": "from dataclasses import replace\nfrom sweeps.depth_ablation import SWEEP\n"
    "SWEEP = replace(SWEEP, name='cells', cells=lambda scale: {}[scale])\n",
    "broken.py": "raise RuntimeError\n",
    "page.md": "no blocks\n",
    "bad.md": "<!-- pcore table nothing smoke store -->\nno end\n",
    "file.txt": "text\n",
    "own.py": '''
import torch
from pcore.encodings import Encoding
from pcore.tasks import Layout
from pcore.tasks.strings import Copy

value = 3


def function():
    raise KeyError("called")


class Plain:
    pass


class Raises(Encoding):
    uses_ids = True
    offset = "invariant"
    at_test = "nothing"

    def __init__(self, *rest):
        raise KeyError("not today")


class Wrong(Encoding):
    uses_ids = True
    offset = "invariant"
    at_test = "nothing"

    def bias(self, query_ids, key_ids, layer):
        return torch.zeros(3, 5, 7)


class Silent(Copy):
    """A task without a response."""

    def layout(self, shape):
        layout = super().layout(shape)
        layout.num_query = len(layout.sources)
        return layout
''',
}


def make_world(folder: Path) -> str:
    """Fill the folder; the id of a trial in its store."""
    for name, text in SCRIPTS.items():
        (folder / name).write_text(text)
    for name in ("empty", "readonly", "out", "damaged/trials/ab"):
        (folder / name).mkdir(parents=True)
    (folder / "damaged/trials/ab/abababababababab-1-ok-00000000.parquet").write_bytes(b"PAR1xPAR1")
    (folder / "readonly").chmod(0o500)
    trial = _fill_store(Store(folder / "store"))
    config = override(TrialConfig(), TINY)
    weights = make_model(config).state_dict()
    save_model(folder / "model.pt", config, weights, policy="last", step=0)
    payload = torch.load(folder / "model.pt", weights_only=True)
    payload["config"]["position.encoding"] = "stranger:Mine"
    torch.save(payload, folder / "own.pt")
    state = next(iter(train(config, report_every=1))).state()
    (folder / "state.pt").write_bytes(pack_state(config, state))
    return trial


def _fill_store(store: Store) -> str:
    plan = make_plan(SWEEP, "smoke", None, store, priced=False)
    configs = [planned.trial.config for planned in plan.trials]
    for place, config in enumerate(configs[:8]):
        write_trial(store, config, "ok", make_evaluation(9 + place % 3, 1.5, place))
    write_trial(store, configs[8], "error", error="planted")
    store.write_view(view_rows(plan))
    return plan.trials[0].trial.id
