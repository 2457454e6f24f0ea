"""What is made from the weights of finished trials: `python -m sweeps measure`."""

import sys
import time
from collections.abc import Sequence

from pcore.checkpoint import unpack_model
from pcore.config import TrialConfig
from pcore.model import Transformer
from sweeps.commands.catalogue import chosen_views
from sweeps.engine.arithmetic import process_settings
from sweeps.engine.options import open_store
from sweeps.engine.spec import Scale
from sweeps.engine.store import mechanisms
from sweeps.engine.store.checks import check_checkpoint, name_once
from sweeps.engine.store.folder import Folder
from sweeps.engine.store.seal import BadFile
from sweeps.engine.store.store import Store
from sweeps.engine.trial.analyse import write_diagnosis

NUM_THREADS = 1  # more only wait for each other at these sizes


def measure_trials(
    results: str | None,
    sweeps: Sequence[str],
    scale: Scale | None,
    num_examples: int,
    device: str,
    force: bool,
    trust_code: bool = False,
) -> int:
    """Analyse the last models of finished trials of these sweeps (none = all) at this scale (None =
    all): attention and causes of failure, on `num_examples` examples of each length. force: also
    those that were analysed. trust_code: import own code that weights name. 1 if some weights were
    refused.
    """
    models = _Models(open_store(results), sweeps, scale, device, trust_code)
    folder = models.store.folder
    done = set() if force else _analysed(folder)
    for name in (name for name in models.trials if name not in done):
        began = time.monotonic()
        if opened := models.open(name):
            with process_settings(NUM_THREADS):
                write_diagnosis(folder, name, *opened, num_examples)
            models.tell(name, began)
    return models.end()


def _analysed(folder: Folder) -> set[str]:
    files = mechanisms.names(folder)
    return {name for name, file in files.items() if mechanisms.read(folder, file) is not None}


class _Models:
    """The trained models of finished trials; counts what became of each trial."""

    def __init__(
        self,
        store: Store,
        sweeps: Sequence[str],
        scale: Scale | None,
        device: str,
        trust_code: bool,
    ):
        self.store, self.device, self.trust_code = store, device, trust_code
        self.num_made, self.num_gone, self.num_refused = 0, 0, 0
        views = chosen_views(store, sweeps, scale)
        columns = (store.load_view(*view).column("trial_id") for view in views)
        trials = list(dict.fromkeys(name for column in columns for name in column.to_pylist()))
        visible = store.visible()
        ok = [name for name in trials if name in visible and visible[name].status == "ok"]
        shards = [visible[name] for name in ok]
        kinds = store.load_shards(shards, "trial", ["trial_id", "model.kind"]).to_pylist()
        built = {row["trial_id"] for row in kinds if row["model.kind"] == "constructed"}
        self.trials = [name for name in ok if name not in built]  # the theorem says what those do

    def open(self, name: str) -> tuple[Transformer, TrialConfig] | None:
        """The last model of a trial; None, and counted, if it is gone or refused."""
        file = f"checkpoints/{name}/last.pt"
        try:
            data = self.store.folder.read(file)
            check_checkpoint(data)
        except (FileNotFoundError, BadFile) as error:
            if isinstance(error, BadFile):
                name_once(self.store.folder.path(file), str(error))
            self.num_gone += 1
            return None
        try:
            model, config = unpack_model(data, file, trust_code=self.trust_code)
        except ValueError as error:
            print(f"  {error}", file=sys.stderr)
            self.num_refused += 1
            return None
        return model.to(self.device), config

    def tell(self, name: str, began: float) -> None:
        """A file of this trial was written."""
        self.num_made += 1
        print(f"  {name}  ({time.monotonic() - began:.1f} s)", flush=True)

    def end(self) -> int:
        """Print the counts; 1 if weights were refused."""
        before = len(self.trials) - self.num_made - self.num_gone - self.num_refused
        print(
            f"{len(self.trials)} trained models: {self.num_made} measured now, {before} before, "
            f"{self.num_gone} without weights, {self.num_refused} with refused weights; "
            f"{self.store.folder.path(mechanisms.FOLDER)}"
        )
        return 1 if self.num_refused else 0
