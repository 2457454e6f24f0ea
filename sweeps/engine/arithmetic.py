"""Threads and arithmetic of a process while it trains or applies models."""

from collections.abc import Generator
from contextlib import contextmanager

import torch


@contextmanager
def process_settings(num_threads: int) -> Generator[None]:
    """So many threads of torch, and denormals are zeros, until the end of the block."""
    threads = torch.get_num_threads()
    torch.set_num_threads(num_threads)
    # Softmax leaves numbers below 1e-38 that a CPU multiplies ten times slower than others.
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(False)
