"""One attempt at one trial: resume or start, consume `train`, write exactly one shard. Runs in a
worker or in the driver.

While it runs, `RESULTS/running/<trial_id>.json` says who runs it, and its state is kept in
`RESULTS/checkpoints/<trial_id>/`. A marker that an attempt finds is that of a dead one: a trial
belongs to one launch (see launches) and within it to one worker. A worker killed between its shard
and the end leaves a marker that means nothing; the next launch removes it.
"""

import json
import time
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from pcore.checkpoint import pack_model, pack_state, unpack_state
from pcore.config import TrialConfig, trial_id
from pcore.cost import count_train_flops, count_train_tokens
from pcore.evaluate import LengthResult
from pcore.model import make_model
from pcore.train import Diverged, Report, train
from sweeps.engine.mechanism import write_diagnosis
from sweeps.engine.processes import Process, this_process
from sweeps.engine.provenance import code_provenance
from sweeps.engine.storage import Folder, StorageFailed
from sweeps.engine.store import Store
from sweeps.engine.store_schema import REPORT, Status

MAX_LOST = 3  # a trial that took this many workers with it in one launch is not started again
GIVEN_UP = f"its worker died {MAX_LOST} times"
ZOMBIE_SECONDS = 20.0  # how long the last worker of a dead launch may take to end


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """How trials are run; no part of their identity.

    device: cpu or cuda. num_threads: torch threads of a trial. checkpoint_every: seconds between
    saved states. time_limit: seconds of one attempt, then status timeout (its state stays).
    slice_end: a `time.monotonic()` at which an attempt in this process saves its state and stops
    without a shard, to be continued by a later launch. launch: name of the launch that runs it.
    diagnose: test examples of each length by which a finished model is analysed (see diagnose); 0 =
    it is not.
    """

    results: str
    device: str = "cpu"
    num_threads: int = 1
    checkpoint_every: float = 30.0
    time_limit: float | None = None
    slice_end: float | None = None
    launch: str = ""
    diagnose: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What became of an attempt. status: that of its shard, or one without a shard: `done` if the
    store had the trial already, `paused`, `unsaved` if the results folder could not be written,
    `stopped` if it was not started because its siblings failed. first_step: above 0 if it resumed.
    """

    trial_id: str
    status: str
    seconds: float
    first_step: int = 0
    summary: str = ""
    error: str = ""


class _TimeUp(Exception):
    """The attempt ran into its time limit."""


class _SliceOver(Exception):
    """The slice of machine time is over; the state is saved."""


def run_attempt(
    config: TrialConfig,
    settings: Settings,
    on_report: Callable[[Report], None] = lambda report: None,
) -> Outcome:
    """Run one trial to its end and write its shard, whatever the end is. Without a shard leave only
    interrupts, slices and a results folder that cannot be written.
    """
    store, name = Store(settings.results), trial_id(config)
    try:
        shard = store.visible_shard(name)
        if shard is not None and shard.finished:
            return Outcome(trial_id=name, status="done", seconds=0.0)
        if record_lost(store, config, settings.launch) >= MAX_LOST:
            return Outcome(trial_id=name, status="lost", seconds=0.0, error=GIVEN_UP)
        with _running_marker(store.folder, name, settings.launch):
            return _Attempt(config, settings, store).run(on_report)
    except StorageFailed as error:
        return Outcome(trial_id=name, status="unsaved", seconds=0.0, error=str(error))


class _Attempt:
    """The life of one attempt; collects what its shard will hold."""

    def __init__(self, config: TrialConfig, settings: Settings, store: Store):
        self.config, self.settings, self.store = config, settings, store
        self.name = trial_id(config)
        self.folder = f"checkpoints/{self.name}"
        self.started, self.clock, self.first_step = time.time(), time.monotonic(), 0
        self.curve: list[dict[str, Any]] = []  # rows of all reports, those before a resume included
        self.last: Report | None = None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.clock

    def run(self, on_report: Callable[[Report], None]) -> Outcome:
        threads = torch.get_num_threads()
        torch.set_num_threads(self.settings.num_threads)
        # Softmax leaves numbers below 1e-38 that a CPU multiplies ten times slower than others.
        torch.set_flush_denormal(True)
        try:
            self._train(on_report)
            return self._finish("ok")
        except StorageFailed:
            raise
        except _SliceOver:
            return Outcome(trial_id=self.name, status="paused", seconds=self.seconds)
        except _TimeUp:
            return self._finish("timeout", f"stopped after {self.settings.time_limit:.0f} s")
        except Diverged as error:
            return self._finish("diverged", str(error))
        except (torch.OutOfMemoryError, MemoryError) as error:
            return self._finish("oom", str(error) or "out of memory")
        except Exception:
            return self._finish("error", traceback.format_exc(limit=-6))
        finally:
            torch.set_num_threads(threads)
            torch.set_flush_denormal(False)

    def _train(self, on_report: Callable[[Report], None]) -> None:
        state = self._load_state()
        if state:
            self.first_step, self.curve = state["step"], state.pop("curve")
        saved = time.monotonic()
        for report in train(self.config, device=self.settings.device, state=state):
            self.last = report
            if not report.results:  # reports of the evaluation say nothing new about training
                self.curve.append({name: getattr(report, name) for name in REPORT})
            on_report(report)
            if report.finished:
                for policy, weights in report.checkpoints.items():
                    data = pack_model(self.config, weights, policy=policy, step=report.step)
                    self.store.folder.write(f"{self.folder}/{policy}.pt", data)
                self._diagnose(report)
                return
            now, limit, end = time.monotonic(), self.settings.time_limit, self.settings.slice_end
            over = end is not None and now > end
            late = limit is not None and self.seconds > limit
            if over or late or now - saved > self.settings.checkpoint_every:
                self._save_state(report)
                saved = now
            if over:
                raise _SliceOver
            if late:
                raise _TimeUp

    def _diagnose(self, report: Report) -> None:
        """Analyse the last checkpoint, where there are test lengths to fail at."""
        weights = report.checkpoints.get("last")
        if weights is None or not self.settings.diagnose or not self.config.eval.test_lengths:
            return
        model = make_model(self.config)
        model.load_state_dict(weights)
        model.to(self.settings.device)
        write_diagnosis(self.store.folder, self.name, model, self.config, self.settings.diagnose)

    def _load_state(self) -> dict[str, Any] | None:
        try:
            data = self.store.folder.read(f"{self.folder}/state.pt")
        except FileNotFoundError:
            return None
        return unpack_state(data, self.config)

    def _save_state(self, report: Report) -> None:
        data = pack_state(self.config, report.state() | {"curve": self.curve})
        self.store.folder.write(f"{self.folder}/state.pt", data)

    def _finish(self, status: Status, error: str | None = None) -> Outcome:
        last = self.last
        results = last.results if last and last.finished else ()
        wall, trained = self.seconds, last.seconds if last else 0.0
        trial: dict[str, Any] = {
            **code_provenance(),
            "error": error,
            "launch": self.settings.launch or None,
            "num_parameters": _count_parameters(last),
            "wall_seconds": wall,
            "train_seconds": trained,
            "eval_seconds": wall - trained if results else 0.0,
            "train_tokens": count_train_tokens(self.config) if results else None,
            "train_flops": count_train_flops(self.config) if results else None,
            "first_step": self.first_step,
            "started_at": datetime.fromtimestamp(self.started, UTC).isoformat(timespec="seconds"),
            "device": _device_name(self.settings.device),
            "dtype": "float32" if self.settings.device == "cpu" else "bfloat16",
            "num_threads": self.settings.num_threads,
        }
        evaluations = [_evaluation_row(result) for result in results]
        self.store.write(self.config, status, trial, self.curve, evaluations)
        if status in ("ok", "diverged", "error"):
            self.store.folder.delete(f"{self.folder}/state.pt")
            self.store.folder.remove_if_empty(self.folder)
        text = _summarise(evaluations) if status == "ok" else ""
        return Outcome(
            trial_id=self.name,
            status=status,
            seconds=wall,
            first_step=self.first_step,
            summary=text,
            error=error or "",
        )


def record_lost(store: Store, config: TrialConfig, launch: str = "") -> int:
    """If an earlier attempt at this trial died without a word, write its `lost` shard; how many
    attempts of this launch were lost so far.

    What died with an earlier launch is not the trial's fault and does not count.
    """
    name = trial_id(config)
    marker = _marker_name(name)
    try:
        owner = json.loads(store.folder.read(marker))
    except (FileNotFoundError, ValueError):
        owner = None
    if owner is not None:
        process = Process(**owner["process"])
        patience = time.monotonic() + ZOMBIE_SECONDS
        while process.is_gone() is False and process != this_process():
            if time.monotonic() > patience:
                raise StorageFailed(f"process {process.pid} on {process.host} still runs {name}")
            time.sleep(0.2)
        error = f"process {process.pid} on {process.host} ended without a result"
        lost = {"error": error, "launch": owner["launch"], "started_at": owner["started_at"]}
        store.write(config, "lost", {**code_provenance(), **lost})
        store.folder.delete(marker)
    shards = [shard for shard in store.shards_of(name) if shard.status == "lost"]
    if len(shards) < MAX_LOST:
        return len(shards)
    launches = store.load_shards(shards, "trial", ["launch"]).column("launch").to_pylist()
    return launches.count(launch)


def remove_markers(store: Store) -> None:
    """Remove the markers of finished trials, whose workers died with the shard just written."""
    for entry in store.folder.list("running"):
        shard = store.visible_shard(Path(entry.name).stem)
        if shard is not None and shard.finished:
            store.folder.delete(entry.name)


@contextmanager
def _running_marker(folder: Folder, name: str, launch: str) -> Generator[None]:
    marker, now = _marker_name(name), datetime.now(UTC).isoformat(timespec="seconds")
    owner = {"process": this_process().as_dict(), "launch": launch, "started_at": now}
    folder.write(marker, json.dumps(owner).encode())
    try:
        yield
    finally:
        folder.delete(marker)


def _marker_name(name: str) -> str:
    return f"running/{name}.json"


def _evaluation_row(result: LengthResult) -> dict[str, Any]:
    """The columns of one length; outcomes and samples of the reported range only."""
    row = asdict(result)
    kept = result.range == "test"
    samples = json.dumps(row["samples"], ensure_ascii=False) if kept else None
    outcomes = row["outcomes"] if kept else None
    return row | row.pop("counts") | {"outcomes": outcomes, "samples": samples}


def _count_parameters(last: Report | None) -> int | None:
    if last is None or not last.checkpoints:
        return None
    return sum(tensor.numel() for tensor in next(iter(last.checkpoints.values())).values())


def _device_name(device: str) -> str:
    return torch.cuda.get_device_name() if device.startswith("cuda") else "cpu"


def _summarise(evaluations: list[dict[str, Any]]) -> str:
    """Exact match pooled over the train and the near range, for the progress line. Never the test
    range.
    """
    parts = []
    for name in ("train", "near"):
        rows = [row for row in evaluations if row["range"] == name and row["checkpoint"] == "last"]
        if rows:
            share = sum(row["num_correct"] for row in rows) / sum(
                row["num_examples"] for row in rows
            )
            parts.append(f"{name} {100 * share:.1f} %")
    return "exact match: " + ", ".join(parts) if parts else ""
