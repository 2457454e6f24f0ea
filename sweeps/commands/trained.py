"""`python -m sweeps diagnose`: makes mechanism files of finished trials from their weights."""

import sys
import time
from collections.abc import Sequence

import torch

from pcore.model.checkpoint import unpack_model
from sweeps.commands.catalogue import chosen_views
from sweeps.engine.options import open_store
from sweeps.engine.spec import Scale
from sweeps.engine.store.checks import check_checkpoint, name_once
from sweeps.engine.store.mechanism import FOLDER, mechanism_names, read_mechanism
from sweeps.engine.store.seal import BadFile
from sweeps.engine.store.store import Store
from sweeps.engine.trial.analyse import write_diagnosis


def diagnose_trials(
    results: str | None,
    sweeps: Sequence[str],
    scale: Scale | None,
    num_examples: int,
    device: str,
    anew: bool,
    trust_code: bool = False,
) -> int:
    """Analyse the finished trials of these sweeps (none = all) at this scale (None = all) on
    `num_examples` examples of each length. anew: also those that have a mechanism file. trust_code:
    import own code that weights name. 1 if some weights could not be read.
    """
    store = open_store(results)
    views = chosen_views(store, sweeps, scale)
    columns = (store.load_view(*view).column("trial_id") for view in views)
    trials = list(dict.fromkeys(name for column in columns for name in column.to_pylist()))
    visible, analysed = store.visible(), set[str]() if anew else _analysed(store)
    ok = [name for name in trials if name in visible and visible[name].status == "ok"]
    kinds = store.load_shards([visible[name] for name in ok], "trial", ["trial_id", "model.kind"])
    built = {row["trial_id"] for row in kinds.to_pylist() if row["model.kind"] == "constructed"}
    ok = [name for name in ok if name not in built]  # the theorem says what those do
    num_written, num_gone, num_refused = 0, 0, 0
    torch.set_num_threads(1)  # more only wait for each other at these sizes
    torch.set_flush_denormal(True)  # as an attempt does
    for name in ok:
        if name in analysed:
            continue
        file, began = f"checkpoints/{name}/last.pt", time.monotonic()
        try:
            data = store.folder.read(file)
            check_checkpoint(data)
        except FileNotFoundError:
            num_gone += 1
            continue
        except BadFile as error:
            name_once(store.folder.path(file), str(error))
            num_gone += 1
            continue
        try:
            model, config = unpack_model(data, file, trust_code=trust_code)
        except ValueError as error:
            print(f"  {error}", file=sys.stderr)
            num_refused += 1
            continue
        write_diagnosis(store.folder, name, model.to(device), config, num_examples)
        num_written += 1
        print(f"  {name}  ({time.monotonic() - began:.1f} s)", flush=True)
    print(
        f"{len(ok)} trained models: {num_written} analysed now, "
        f"{len(ok) - num_written - num_gone - num_refused} before, {num_gone} without weights, "
        f"{num_refused} with refused weights; {store.folder.path(FOLDER)}"
    )
    return 1 if num_refused else 0


def _analysed(store: Store) -> set[str]:
    """Trials whose mechanism file can be read."""
    files = mechanism_names(store.folder)
    return {name for name, file in files.items() if read_mechanism(store.folder, file) is not None}
