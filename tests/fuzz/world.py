"""The folder that fuzzed command lines run in: a store, models, scripts, own code; good and bad."""

from pathlib import Path

import torch

from pcore.checkpoint import pack_state, save_model
from pcore.config import TrialConfig, override
from pcore.model import make_model
from tests.support.rows.example_store import build_store
from tests.support.tiny_config import TINY

SCRIPTS = {
    "good.py": "from sweeps.depth_ablation import SWEEP\n",
    "raises.py": "1 / 0\n",
    "syntax.py": "def (:\n",
    "nothing.py": "x = 1\n",
    "page.md": "no blocks\n",
    "bad.md": "<!-- pcore table nothing smoke store -->\nno end\n",
    "file.txt": "text\n",
    "own.py": '''
import torch
from pcore.encodings import Encoding
from pcore.tasks.strings import Copy

value = 3


class Wrong(Encoding):
    uses_ids = True

    def bias(self, query_ids, key_ids, layer):
        return torch.zeros(3, 5, 7)


class Raises(Wrong):
    def __init__(self, *rest):
        raise KeyError("not today")


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
    for name in ("empty", "out", "damaged/trials/ab"):
        (folder / name).mkdir(parents=True)
    (folder / "damaged/trials/ab/abababababababab-1-ok-00000000.parquet").write_bytes(b"PAR1xPAR1")
    config = override(TrialConfig(), TINY)
    weights = make_model(config).state_dict()
    save_model(folder / "model.pt", config, weights)
    payload = torch.load(folder / "model.pt", weights_only=True)
    payload["config"]["position.encoding"] = "stranger:Mine"
    torch.save(payload, folder / "own.pt")
    (folder / "state.pt").write_bytes(pack_state(config, {"step": 1, "results": []}))
    return build_store(folder / "store").load(record="trial").column("trial_id")[0].as_py()
