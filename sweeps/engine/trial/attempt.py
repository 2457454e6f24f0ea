"""One attempt at one trial: resume or start, consume `train`, write exactly one shard. Runs in a
worker or in the driver.

While it runs, a file says who runs it (see `running`), and its state is kept in
`RESULTS/checkpoints/<trial_id>/`.
"""

import json
import os
import shutil
import threading
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import torch

from pcore.checkpoint import pack_model, pack_state, unpack_state
from pcore.cli.models import delayed_interrupt
from pcore.cli.parser import is_out_of_memory
from pcore.config import TrialConfig, flatten, trial_id
from pcore.evaluation import LengthResult
from pcore.flops import count_train_flops, count_train_tokens
from pcore.model import make_model
from pcore.training import Diverged, Report, train
from sweeps.engine.arithmetic import process_settings
from sweeps.engine.store.folder import StorageFailed
from sweeps.engine.store.names import Shard
from sweeps.engine.store.schema import REPORT, Status
from sweeps.engine.store.score import pooled_matches
from sweeps.engine.store.seal import BadFile
from sweeps.engine.store.sources import hash_sources
from sweeps.engine.store.store import Store
from sweeps.engine.trial.analyse import write_diagnosis
from sweeps.engine.trial.provenance import code_provenance, machine_provenance
from sweeps.engine.trial.running import Running, Taken, running

TAKEN_OVER = "its file in running/ was removed; its state is saved"
Compile: TypeAlias = Literal["auto", "on", "off"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """How trials are run; not part of their identity."""

    results: str  # folder or URI
    device: str = "cpu"  # cpu or cuda
    num_threads: int = 1  # torch threads of a trial
    checkpoint_every: float = 30.0  # seconds between saved states
    launch: str = ""  # name of the launch that runs the trials
    dead: frozenset[str] = frozenset()  # files of attempts of other machines that died
    diagnose: int = 0  # examples of each length by which a finished model is analysed; 0: it is not
    compile: Compile = "auto"  # training steps with torch.compile; auto: on a GPU, with a compiler

    @property
    def compiled(self) -> bool:
        """What `compile` means on the device."""
        if self.compile == "auto":
            compilers = (os.environ.get("CC", ""), "clang", "gcc")  # Triton calls one
            return self.device.startswith("cuda") and any(map(shutil.which, compilers))
        return self.compile == "on"


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How an attempt ended.

    status: that of its shard, or one without a shard: `done` if the store had the trial already,
    `held` if somebody else runs it, `unsaved` if the results folder could not be written, `stopped`
    if it was not started because other trials failed.
    """

    trial_id: str
    status: str
    seconds: float  # wall time
    summary: str = ""  # exact match, for the progress line
    error: str = ""


def run_attempt(config: TrialConfig, settings: Settings) -> Outcome:
    """Run one trial to its end and write its shard, however it ends. No shard is written only
    after an interrupt and if the results folder cannot be written.

    SIGINT and SIGTERM save the state at the next report, then raise KeyboardInterrupt.
    """
    store, name = Store(settings.results), trial_id(config)
    attempt = Attempt(config, settings, store)
    try:
        with (
            delayed_interrupt() as interrupted,
            running(store.folder, name, settings.launch, attempt.tell, settings.dead) as claimed,
            process_settings(settings.num_threads),
        ):
            others, gone = claimed
            try:
                shard = record_dead(store, config, others)
                if shard is not None and shard.finished:
                    return Outcome(trial_id=name, status="done", seconds=0.0)
                state, compile = attempt.resume(), settings.compiled
                for report in train(config, device=settings.device, state=state, compile=compile):
                    if ended := attempt.follow(report, interrupted, gone):
                        return ended
                return attempt.finish("ok")
            except StorageFailed:
                raise
            except Exception as error:
                return attempt.fail(error)
    except Taken:
        return Outcome(trial_id=name, status="held", seconds=0.0)
    except StorageFailed as error:
        return Outcome(trial_id=name, status="unsaved", seconds=0.0, error=str(error))


def record_dead(store: Store, config: TrialConfig, dead: Iterable[Running]) -> Shard | None:
    """Write the shards of attempts at a trial that died, unless it is finished: then one of them
    had written its own. Their files go. Returns the visible shard there was.
    """
    shard = store.visible_shard(trial_id(config))
    for one in dead:
        if shard is None or not shard.finished:
            error = f"{one.owner} ended without a result"
            lost = {"error": error, "launch": one.launch, "started_at": one.started_at}
            store.write(config, "lost", {**code_provenance(), **lost})
        store.folder.delete(one.file)
    return shard


class Attempt:
    """One attempt; collects what its shard will hold."""

    def __init__(self, config: TrialConfig, settings: Settings, store: Store):
        self.config, self.settings, self.store = config, settings, store
        self.name = trial_id(config)
        self.folder = f"checkpoints/{self.name}"
        self.started, self.began, self.first_step = time.time(), time.monotonic(), 0
        self.curve: list[dict[str, Any]] = []  # rows of all reports, those before a resume included
        self.last: Report | None = None
        self.saved = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    @property
    def maker(self) -> dict[str, str]:
        """Who can go on from a state: this code on this kind of device."""
        device = torch.device(self.settings.device).type
        return {"code": hash_sources(), "device": device}

    def tell(self) -> dict[str, Any]:
        """What the file of a running attempt says of it."""
        results = self.last.results if self.last else ()
        return {
            "config": flatten(self.config),
            "curve": list(self.curve),
            "results": [_told_of(result) for result in results],
        }

    def follow(
        self, report: Report, interrupted: threading.Event, gone: threading.Event
    ) -> Outcome | None:
        """Take a report. If asked to end before the last one, save the state and end."""
        self.take(report)
        if report.finished:
            return None
        asked = interrupted.is_set() or gone.is_set()
        if asked or time.monotonic() - self.saved > self.settings.checkpoint_every:
            self.save()
            self.saved = time.monotonic()
        if interrupted.is_set():
            raise KeyboardInterrupt
        if not gone.is_set():
            return None
        return Outcome(trial_id=self.name, status="held", seconds=self.seconds, error=TAKEN_OVER)

    def resume(self) -> dict[str, Any] | None:
        """The state of an earlier attempt, if any."""
        try:
            data = self.store.folder.read(f"{self.folder}/state.pt")
        except (FileNotFoundError, BadFile):
            return None
        state = unpack_state(data, self.config)
        if state is None or state.pop("made_by", None) != self.maker:
            return None
        self.first_step, self.curve = state["step"], state.pop("curve")
        return state

    def take(self, report: Report) -> None:
        """Collect a report; for the last one also the weights and their analysis."""
        self.last = report
        if not report.results:  # reports of the evaluation say nothing new about training
            self.curve.append({name: getattr(report, name) for name in REPORT})
        for policy, weights in report.checkpoints.items():
            data = pack_model(self.config, weights)
            self.store.folder.write(f"{self.folder}/{policy}.pt", data)
        self._diagnose(report)

    def _diagnose(self, report: Report) -> None:
        """Analyse the last checkpoint, where there are test lengths to fail at."""
        weights = report.checkpoints.get("last")
        if weights is None or not self.settings.diagnose or not self.config.eval.test_lengths:
            return
        if self.config.model.kind == "constructed":  # the theorem says what its heads do
            return
        model = make_model(self.config)
        model.load_state_dict(weights)
        model.to(self.settings.device)
        write_diagnosis(self.store.folder, self.name, model, self.config, self.settings.diagnose)

    def save(self) -> None:
        """Write the state after the last report."""
        assert self.last is not None
        data = pack_state(
            self.config, self.last.state() | {"curve": self.curve, "made_by": self.maker}
        )
        self.store.folder.write(f"{self.folder}/state.pt", data)

    def fail(self, error: Exception) -> Outcome:
        """End an attempt whose training raised this."""
        if isinstance(error, Diverged):
            return self.finish("diverged", str(error))
        if is_out_of_memory(error):
            return self.finish("oom", str(error) or "out of memory")
        return self.finish("error", "".join(traceback.format_exception(error, limit=-6)))

    def finish(self, status: Status, error: str | None = None) -> Outcome:
        """Write the shard. A file's name in an error may hold what is no text."""
        error = error and error.encode(errors="backslashreplace").decode()
        last = self.last
        results = last.results if last and last.finished else ()
        wall, trained = self.seconds, last.seconds if last else 0.0
        trial: dict[str, Any] = {
            **code_provenance(),
            **machine_provenance(),
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
            "compiled": last is not None and last.compiled,
        }
        evaluations = [_evaluation_row(result) for result in results]
        self.store.write(self.config, status, trial, self.curve, evaluations)
        if status in ("ok", "diverged", "error"):
            self.store.folder.delete(f"{self.folder}/state.pt")
            self.store.folder.remove_if_empty(self.folder)
        return outcome_of(self.name, trial | {"status": status}, evaluations)


def outcome_of(
    name: str, trial: Mapping[str, Any], evaluations: Sequence[Mapping[str, Any]]
) -> Outcome:
    """How the attempt ended whose shard has these rows."""
    return Outcome(
        trial_id=name,
        status=trial["status"],
        seconds=trial["wall_seconds"] or 0.0,
        summary=_summarise(evaluations) if trial["status"] == "ok" else "",
        error=trial["error"] or "",
    )


def _evaluation_row(result: LengthResult) -> dict[str, Any]:
    """The columns of one length; outcomes and samples of the reported range only."""
    row = asdict(result)
    kept = result.range == "test"
    samples = json.dumps(row["samples"], ensure_ascii=False) if kept else None
    outcomes = row["outcomes"] if kept else None
    return row | row.pop("counts") | {"outcomes": outcomes, "samples": samples}


def _told_of(result: LengthResult) -> dict[str, Any]:
    """The exact match at one length, for those who watch."""
    row = {name: getattr(result, name) for name in ("checkpoint", "length", "second_length")}
    counts = result.counts
    row |= {"num_correct": counts.num_correct, "num_examples": counts.num_examples}
    return row | {"range": result.range}


def _count_parameters(last: Report | None) -> int | None:
    if last is None or not last.checkpoints:
        return None
    return sum(tensor.numel() for tensor in next(iter(last.checkpoints.values())).values())


def _device_name(device: str) -> str:
    return torch.cuda.get_device_name() if device.startswith("cuda") else "cpu"


def _summarise(evaluations: Sequence[Mapping[str, Any]]) -> str:
    """Exact match pooled over the train and the near range, for the progress line. Never the test
    range.
    """
    last = [row for row in evaluations if row["checkpoint"] == "last"]
    matches = pooled_matches((row["range"], row) for row in last)
    parts = [f"{r} {100 * matches[r]:.1f} %" for r in ("train", "near") if r in matches]
    return "exact match over all lengths: " + ", ".join(parts) if parts else ""
