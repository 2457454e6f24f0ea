"""One attempt at one trial: resume or start, consume `train`, write exactly one shard. Runs in a
worker or in the driver.

While it runs, a marker says who runs it (see running), and its state is kept in
`RESULTS/checkpoints/<trial_id>/`.
"""

import json
import time
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import torch

from pcore.config import TrialConfig, trial_id
from pcore.evaluation.evaluate import LengthResult
from pcore.evaluation.flops import count_train_flops, count_train_tokens
from pcore.model.checkpoint import pack_model, pack_state, unpack_state
from pcore.model.transformer import make_model
from pcore.training.train import Diverged, Report, train
from sweeps.engine.store.folder import StorageFailed
from sweeps.engine.store.schema import REPORT, Status
from sweeps.engine.store.store import Store
from sweeps.engine.trial.analyse import write_diagnosis
from sweeps.engine.trial.markers import GIVEN_UP, MAX_LOST, record_lost, running_marker
from sweeps.engine.trial.provenance import code_provenance

Verdict: TypeAlias = Literal["go on", "save", "paused", "timeout"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """How trials are run; no part of their identity.

    device: cpu or cuda. num_threads: torch threads of a trial. checkpoint_every: seconds between
    saved states. time_limit: seconds of one attempt, then status timeout (its state stays).
    slice_end: a `time.monotonic()` at which an attempt in this process saves its state and stops
    without a shard, to be continued by a later launch. launch: name of the launch that runs it.
    diagnose: test examples of each length by which a finished model is analysed (see diagnose); 0 =
    it is not.
    stack: how many trials of equal shapes may train as one model (see stacks); auto = as many as a
    probe says pay. compile: whether training steps are compiled; auto = on a GPU.
    """

    results: str
    device: str = "cpu"
    num_threads: int = 1
    checkpoint_every: float = 30.0
    time_limit: float | None = None
    slice_end: float | None = None
    launch: str = ""
    diagnose: int = 0
    stack: int | Literal["auto"] = 1
    compile: Literal["auto", "on", "off"] = "auto"

    @property
    def compiled(self) -> bool:
        """What `compile` means on the device."""
        if self.compile == "auto":
            return self.device.startswith("cuda")
        return self.compile == "on"


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What became of an attempt. status: that of its shard, or one without a shard: `done` if the
    store had the trial already, `paused`, `unsaved` if the results folder could not be written,
    `stopped` if it was not started because its siblings failed. first_step: above 0 if it resumed.
    stacked: how many trials trained as one model; seconds are this trial's share of theirs.
    """

    trial_id: str
    status: str
    seconds: float
    first_step: int = 0
    summary: str = ""
    error: str = ""
    stacked: int = 1


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
        if outcome := admit(config, settings, store)[0]:
            return outcome
        with running_marker(store.folder, name, settings.launch):
            return Attempt(config, settings, store).run(on_report)
    except StorageFailed as error:
        return Outcome(trial_id=name, status="unsaved", seconds=0.0, error=str(error))


def admit(config: TrialConfig, settings: Settings, store: Store) -> tuple[Outcome | None, int]:
    """The outcome of a trial that need not or must not be started, else None; and how many of its
    attempts this launch has lost.
    """
    name = trial_id(config)
    shard = store.visible_shard(name)
    if shard is not None and shard.finished:
        return Outcome(trial_id=name, status="done", seconds=0.0), 0
    num_lost = record_lost(store, config, settings.launch)
    if num_lost >= MAX_LOST:
        return Outcome(trial_id=name, status="lost", seconds=0.0, error=GIVEN_UP), num_lost
    return None, num_lost


class Timer:
    """Says when states have to be saved and attempts have to end."""

    def __init__(self, settings: Settings):
        self.settings, self.began = settings, time.monotonic()
        self.saved = self.began

    def verdict(self) -> Verdict:
        """save = a state is due; paused, timeout = save it and stop. To be obeyed."""
        now, limit, end = time.monotonic(), self.settings.time_limit, self.settings.slice_end
        if end is not None and now > end:
            return "paused"
        if limit is not None and now - self.began > limit:
            return "timeout"
        if now - self.saved <= self.settings.checkpoint_every:
            return "go on"
        self.saved = now
        return "save"


class Attempt:
    """The life of one attempt; collects what its shard will hold. clock: seconds that count as this
    trial's own; stacked: how many trials train as one model with it.
    """

    def __init__(
        self,
        config: TrialConfig,
        settings: Settings,
        store: Store,
        clock: Callable[[], float] = time.monotonic,
        stacked: int = 1,
    ):
        self.config, self.settings, self.store = config, settings, store
        self.name, self.stacked = trial_id(config), stacked
        self.folder = f"checkpoints/{self.name}"
        self.started, self.clock, self.began, self.first_step = time.time(), clock, clock(), 0
        self.curve: list[dict[str, Any]] = []  # rows of all reports, those before a resume included
        self.last: Report | None = None

    @property
    def seconds(self) -> float:
        return self.clock() - self.began

    def run(self, on_report: Callable[[Report], None]) -> Outcome:
        """Train alone, to an end of any kind."""
        try:
            with process_settings(self.settings):
                return self._train(on_report)
        except StorageFailed:
            raise
        except Diverged as error:
            return self.finish("diverged", str(error))
        except (torch.OutOfMemoryError, MemoryError) as error:
            return self.finish("oom", str(error) or "out of memory")
        except Exception:
            return self.finish("error", traceback.format_exc(limit=-6))

    def _train(self, on_report: Callable[[Report], None]) -> Outcome:
        state, timer = self.resume(), Timer(self.settings)
        settings = self.settings
        for report in train(
            self.config, device=settings.device, state=state, compile=settings.compiled
        ):
            self.take(report)
            on_report(report)
            if report.finished:
                break
            verdict = timer.verdict()
            if verdict != "go on":
                self.save()
            if verdict in ("paused", "timeout"):
                return self.stop(verdict)
        return self.finish("ok")

    def resume(self) -> dict[str, Any] | None:
        """The state that an earlier attempt left, if any."""
        try:
            data = self.store.folder.read(f"{self.folder}/state.pt")
        except FileNotFoundError:
            return None
        state = unpack_state(data, self.config)
        if state:
            self.first_step, self.curve = state["step"], state.pop("curve")
        return state

    def take(self, report: Report) -> None:
        """Keep what a report says; of the last one also the weights, and what they do."""
        self.last = report
        if not report.results:  # reports of the evaluation say nothing new about training
            self.curve.append({name: getattr(report, name) for name in REPORT})
        for policy, weights in report.checkpoints.items():
            data = pack_model(self.config, weights, policy=policy, step=report.step)
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
        """Write the state behind the last report."""
        assert self.last is not None
        data = pack_state(self.config, self.last.state() | {"curve": self.curve})
        self.store.folder.write(f"{self.folder}/state.pt", data)

    def stop(self, verdict: Literal["paused", "timeout"]) -> Outcome:
        """The end of an attempt whose time is over."""
        if verdict == "timeout":
            return self.finish("timeout", f"stopped after {self.settings.time_limit:.0f} s")
        return Outcome(
            trial_id=self.name, status="paused", seconds=self.seconds, stacked=self.stacked
        )

    def finish(self, status: Status, error: str | None = None) -> Outcome:
        """Write the shard."""
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
            "stacked": self.stacked,
            "compiled": last is not None and last.compiled,
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
            stacked=self.stacked,
        )


@contextmanager
def process_settings(settings: Settings) -> Generator[None]:
    """Threads and arithmetic of this process while it trains."""
    threads = torch.get_num_threads()
    torch.set_num_threads(settings.num_threads)
    # Softmax leaves numbers below 1e-38 that a CPU multiplies ten times slower than others.
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(False)


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
