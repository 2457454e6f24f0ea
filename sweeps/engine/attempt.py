"""One attempt at one trial: resume or start, consume `train`, write exactly one shard. Runs in a
worker or in the driver.

While it runs, `results/running/<trial_id>.json` says who runs it and
`results/checkpoints/<trial_id>/` holds its state.
"""

import contextlib
import json
import os
import socket
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from pcore.checkpoint import load_state, save_model, save_state
from pcore.config import TrialConfig, trial_id
from pcore.train import Diverged, Report, train
from sweeps.engine.provenance import code_provenance
from sweeps.engine.store import REPORT, Status, Store

MAX_LOST = 3  # a trial whose worker died this often is not started again


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """How trials are run; no part of their identity.

    device: cpu or cuda. num_threads: torch threads of a trial. checkpoint_every: seconds between
    saved states. time_limit: seconds of one attempt, then status timeout (its state stays).
    slice_end: a `time.time()` at which an attempt saves its state and stops without a shard, to be
    continued by a later launch.
    """

    results: str
    device: str = "cpu"
    num_threads: int = 1
    checkpoint_every: float = 30.0
    time_limit: float | None = None
    slice_end: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What became of an attempt. status: that of its shard, `done` if the store had the trial
    already, or `paused`.
    """

    trial_id: str
    status: str
    seconds: float
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
    """Run one trial to its end and write its shard, whatever the end is. Only interrupts leave
    without a shard.
    """
    store, name = Store(settings.results), trial_id(config)
    shard = store.visible_shard(name)
    if shard is not None and shard.status in ("ok", "diverged"):
        return Outcome(trial_id=name, status="done", seconds=0.0)
    if record_lost(store, config) >= MAX_LOST:
        return Outcome(
            trial_id=name, status="lost", seconds=0.0, error=f"its worker died {MAX_LOST} times"
        )
    attempt = _Attempt(config, settings, store)
    with _running_marker(store, name):
        return attempt.run(on_report)


class _Attempt:
    """The life of one attempt; collects what its shard will hold."""

    def __init__(self, config: TrialConfig, settings: Settings, store: Store):
        self.config, self.settings, self.store = config, settings, store
        self.name = trial_id(config)
        self.folder = store.root / "checkpoints" / self.name
        self.started, self.first_step = time.time(), 0
        self.curve: list[dict[str, Any]] = []  # rows of all reports, those before a resume included
        self.last: Report | None = None

    def run(self, on_report: Callable[[Report], None]) -> Outcome:
        threads = torch.get_num_threads()
        torch.set_num_threads(self.settings.num_threads)
        # Softmax leaves numbers below 1e-38 that a CPU multiplies ten times slower than others.
        torch.set_flush_denormal(True)
        try:
            self._train(on_report)
            return self._finish("ok")
        except _SliceOver:
            return Outcome(trial_id=self.name, status="paused", seconds=time.time() - self.started)
        except _TimeUp:
            return self._finish("timeout", f"stopped after {self.settings.time_limit:.0f} s")
        except Diverged as error:
            return self._finish("diverged", str(error))
        except (torch.OutOfMemoryError, MemoryError) as error:
            return self._finish("oom", str(error))
        except Exception:
            return self._finish("error", traceback.format_exc(limit=-6))
        finally:
            torch.set_num_threads(threads)
            torch.set_flush_denormal(False)

    def _train(self, on_report: Callable[[Report], None]) -> None:
        file = self.folder / "state.pt"
        state = load_state(file, self.config)
        if state:
            self.first_step, self.curve = state["step"], state.pop("curve")
        saved = time.time()
        for report in train(self.config, device=self.settings.device, state=state):
            self.last = report
            self.curve.append({name: getattr(report, name) for name in REPORT})
            on_report(report)
            if report.finished:
                for policy, weights in report.checkpoints.items():
                    file = self.folder / f"{policy}.pt"
                    save_model(file, self.config, weights, policy=policy, step=report.step)
                return
            now, limit, end = time.time(), self.settings.time_limit, self.settings.slice_end
            over, late = (
                end is not None and now > end,
                limit is not None and now - self.started > limit,
            )
            if over or late or now - saved > self.settings.checkpoint_every:
                save_state(file, self.config, report.state() | {"curve": self.curve})
                saved = now
            if over:
                raise _SliceOver
            if late:
                raise _TimeUp

    def _finish(self, status: Status, error: str | None = None) -> Outcome:
        last = self.last
        results = last.results if last else ()
        wall, trained = time.time() - self.started, last.seconds if last else 0.0
        trial: dict[str, Any] = {
            **code_provenance(),
            "error": error,
            "num_parameters": _count_parameters(last),
            "wall_seconds": wall,
            "train_seconds": trained,
            "eval_seconds": wall - trained if results else 0.0,
            "first_step": self.first_step,
            "started_at": datetime.fromtimestamp(self.started, UTC).isoformat(timespec="seconds"),
            "device": _device_name(self.settings.device),
            "dtype": "float32" if self.settings.device == "cpu" else "bfloat16",
            "num_threads": self.settings.num_threads,
        }
        evaluations = [
            {k: v for k, v in asdict(r).items() if k != "counts"} | asdict(r.counts)
            for r in results
        ]
        self.store.write(self.config, status, trial, self.curve, evaluations)
        if status in ("ok", "diverged", "error"):
            (self.folder / "state.pt").unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self.folder.rmdir()  # if empty
        text = _summarise(evaluations) if status == "ok" else ""
        return Outcome(
            trial_id=self.name, status=status, seconds=wall, summary=text, error=error or ""
        )


def record_lost(store: Store, config: TrialConfig) -> int:
    """If an earlier attempt at this trial died without a word, write its `lost` shard; how many
    were lost so far.
    """
    name = trial_id(config)
    marker = _marker_file(store, name)
    with contextlib.suppress(OSError, ValueError):
        owner = json.loads(marker.read_text())
        if owner["host"] == socket.gethostname() and not _is_alive(owner["pid"]):
            error = f"process {owner['pid']} on {owner['host']} ended without a result"
            store.write(
                config,
                "lost",
                {**code_provenance(), "error": error, "started_at": owner["started_at"]},
            )
            marker.unlink(missing_ok=True)
    return sum(shard.status == "lost" for shard in store.shards_of(name))


@contextlib.contextmanager
def _running_marker(store: Store, name: str):
    marker = _marker_file(store, name)
    marker.parent.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    marker.write_text(
        json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "started_at": now})
    )
    try:
        yield
    finally:
        marker.unlink(missing_ok=True)


def _marker_file(store: Store, name: str) -> Path:
    return store.root / "running" / f"{name}.json"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


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
