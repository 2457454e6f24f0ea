"""What is made from the weights of finished trials: `python -m sweeps measure`."""

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from pcore.checkpoint import unpack_model
from pcore.config import TrialConfig
from pcore.diagnosis.metrics import Metric, check_metric, find_metric, measure
from pcore.model import Transformer
from sweeps.commands.catalogue import chosen_views
from sweeps.engine.arithmetic import process_settings
from sweeps.engine.options import open_store
from sweeps.engine.spec import Scale
from sweeps.engine.store.beside import MECHANISMS, METRICS
from sweeps.engine.store.checks import check_checkpoint, name_once
from sweeps.engine.store.folder import Folder
from sweeps.engine.store.seal import BadFile
from sweeps.engine.store.store import Store
from sweeps.engine.trial.analyse import write_diagnosis

NUM_THREADS = 1  # more only wait for each other at these sizes
POLICIES = ("last", "best", "oracle")
MECHANISM = "mechanism"  # the metric that comes with pcore


def measure_trials(
    results: str | None,
    sweeps: Sequence[str],
    scale: Scale | None,
    metric_name: str,
    num_examples: int,
    device: str,
    force: bool,
    trust_code: bool = False,
) -> int:
    """Apply a metric to what the models of finished trials write for `num_examples` examples of
    each length: `mechanism` (attention and causes of failure), or one of somebody's own. Of these
    sweeps (none = all) at this scale (None = all). force: also those that it was applied to, from
    the same file. trust_code: import own code that weights name. 1 if some weights could not be
    read. Raises ValueError if it is no such function, or fails on answers that could be, before any
    model decodes.
    """
    metric = None if metric_name == MECHANISM else find_metric(metric_name)
    models = _Models(open_store(results), sweeps, scale, device, trust_code)
    folder, checked = models.store.folder, set[str]()
    done = _analysed(folder) if metric is None else _measured(models.store, metric, num_examples)
    for name in (name for name in models.trials if force or name not in done):
        began = time.monotonic()
        opened = models.open(name, POLICIES if metric else POLICIES[:1])
        with process_settings(NUM_THREADS):
            if metric is None:
                made = [
                    write_diagnosis(folder, name, model, config, num_examples)
                    for _, model, config in opened
                ]
            else:
                made = _apply(metric, opened, num_examples, checked)
                if made:
                    METRICS.write(folder, name, made, part=metric.name)
        if made:
            models.tell(name, began)
    return models.end((METRICS if metric else MECHANISMS).folder)


Opened: TypeAlias = Iterator[tuple[str, Transformer, TrialConfig]]  # by checkpoint policy


def _apply(
    metric: Metric, opened: Opened, num_examples: int, checked: set[str]
) -> list[dict[str, object]]:
    """The rows of a metric of somebody's own. checked: tasks on which it was tried out."""
    rows = list[dict[str, object]]()
    for policy, model, config in opened:
        if repr(config.task) not in checked:
            check_metric(metric, config)
            checked.add(repr(config.task))
        found = measure(metric, model, config, num_examples)
        rows += [{"checkpoint": policy, **row} for row in found]
    return rows


def _analysed(folder: Folder) -> set[str]:
    files = MECHANISMS.names(folder)
    return {n for n, (file, *_) in files.items() if MECHANISMS.read(folder, file) is not None}


def _measured(store: Store, metric: Metric, num_examples: int) -> set[str]:
    """The trials that this metric was applied to as it is, on so many examples."""
    made_of: dict[str, set[tuple[str, int]]] = {}
    for row in METRICS.load(store.folder, METRICS.names(store.folder)).to_pylist():
        if row["metric"] == metric.name:
            made_of.setdefault(row["trial_id"], set()).add((row["source"], len(row["values"])))
    return {name for name, made in made_of.items() if made == {(metric.source, num_examples)}}


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

    def open(self, name: str, policies: Sequence[str]) -> Opened:
        """The models of a trial by checkpoint policy, of those it has; its last one is missed."""
        for policy in policies:
            file = f"checkpoints/{name}/{policy}.pt"
            try:
                data = self.store.folder.read(file)
                check_checkpoint(data)
            except FileNotFoundError:
                self.num_gone += policy == "last"
                continue
            except BadFile as error:
                name_once(self.store.folder.path(file), str(error))
                self.num_gone += policy == "last"
                continue
            try:
                model, config = unpack_model(data, file, trust_code=self.trust_code)
            except ValueError as error:
                print(f"  {error}", file=sys.stderr)
                self.num_refused += policy == "last"
                continue
            yield policy, model.to(self.device), config

    def tell(self, name: str, began: float) -> None:
        """A file of this trial was written."""
        self.num_made += 1
        print(f"  {name}  ({time.monotonic() - began:.1f} s)", flush=True)

    def end(self, place: str) -> int:
        """Print the counts; 1 if weights were refused."""
        before = len(self.trials) - self.num_made - self.num_gone - self.num_refused
        print(
            f"{len(self.trials)} trained models: {self.num_made} measured now, {before} before, "
            f"{self.num_gone} without weights, {self.num_refused} with refused weights; "
            f"{self.store.folder.path(place)}"
        )
        return 1 if self.num_refused else 0
