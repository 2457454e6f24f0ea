"""What commands set up before they run: a device, threads, interrupts, and a trained model."""

import signal
import sys
import threading
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import torch

from pcore.checkpoint import load_model
from pcore.config import TrialConfig
from pcore.model import Transformer

SMALL = 256  # d_model up to which one thread is fastest


def choose_device(name: str | None) -> torch.device:
    """The device of that name, or a GPU if there is one.

    Raises ValueError if it is neither cpu nor cuda, or nothing can be computed on it here.
    """
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.ones(1, device=(device := torch.device(name))).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ValueError(f"device {name!r} is not available here") from error
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"device {name!r} is neither cpu nor cuda")
    return device


def set_threads(config: TrialConfig) -> None:
    """One thread for a small model, which more make slower; for others $OMP_NUM_THREADS counts."""
    if config.model.d_model <= SMALL:
        torch.set_num_threads(1)


def open_model(
    file: Path, device: torch.device, *, trust_code: bool = False
) -> tuple[Transformer, TrialConfig]:
    """`load_model` on a device, its warnings printed. Raises ValueError as that."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)  # others stay as they are filtered
        model, config = load_model(file, trust_code=trust_code)
    for warning in caught:
        print(f"warning: {warning.message}", file=sys.stderr)
    set_threads(config)
    return model.to(device), config


@contextmanager
def delayed_interrupt() -> Generator[threading.Event]:
    """Within the block the first SIGINT or SIGTERM sets the event, a second one interrupts. Other
    threads than the main one get no signals.
    """
    asked = threading.Event()

    def ask(number: int, frame: object) -> None:
        del number, frame
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        text = "the state is saved at the next report; once more ends without it"
        print(f"\n{text}", file=sys.stderr, flush=True)

    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if asked.is_set():  # after the last report: this trial is finished, no other one begins
            raise KeyboardInterrupt
