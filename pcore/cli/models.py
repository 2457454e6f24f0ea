"""What commands set up before they run: a device, threads, memory, and a trained model."""

import os
from pathlib import Path

import torch

from pcore.checkpoint import read_settings, unpack_model
from pcore.config import TrialConfig, check_bounds, unflatten
from pcore.encodings import Learned, find_encoding
from pcore.model import Transformer
from pcore.validation import validate

SMALL = 256  # d_model up to which one thread is fastest
GIB = 2**30


def choose_device(name: str | None) -> torch.device:
    """The device of that name, or a GPU if there is one.

    Raises ValueError if nothing can be computed on it here (the meta device has no values).
    """
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.ones(1, device=(device := torch.device(name))).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ValueError(f"device {name!r} is not available here") from error
    return device


def set_threads(number: int | None, config: TrialConfig) -> None:
    """Use that many threads; one for small models, which more threads make slower."""
    if number is not None and number < 1:
        raise ValueError(f"--threads {number} is below 1")
    if number is None and config.model.d_model > SMALL:
        return
    torch.set_num_threads(number or 1)


# Memory -----------------------------------------------------------------------------------------


def check_trial(config: TrialConfig, *, training: bool) -> None:
    """Raise ValueError for a trial that cannot work or cannot fit, before memory is allocated."""
    check_bounds(config)
    if training:
        validate(config)
    memory = _memory()
    for what, num_bytes in _least_bytes(config, training).items():
        if num_bytes > memory:
            need, have = num_bytes / GIB, memory / GIB
            raise ValueError(f"{what}: at least {need:.3g} GiB, this machine has {have:.3g} GiB")


def _least_bytes(config: TrialConfig, training: bool) -> dict[str, int]:
    """Lower bounds on memory by what takes it: nothing that could run may be refused."""
    m, position, task = config.model, config.position, config.task
    num_tokens = task.num_tokens(config.data.min_length)
    num_weights = m.num_layers * m.d_model * (4 * m.num_heads * m.d_head + 3 * m.d_ff)
    if issubclass(find_encoding(position.encoding), Learned):
        num_weights += m.d_model * max(position.max_positions or (position.max_position,))
    sizes = f"model.num_layers={m.num_layers}, model.d_model={m.d_model}, model.d_ff={m.d_ff}"
    copies = 4 if training else 1  # with gradients and the two moments of Adam
    needs = {
        f"weights ({sizes}, position.max_position={position.max_position})": (
            4 * copies * num_weights
        ),
        f"test examples (eval.num_examples={config.eval.num_examples})": (
            8 * config.eval.num_examples * num_tokens
        ),
    }
    if training:
        size, count = config.optim.batch_size, config.data.num_examples or 0
        needs[f"a batch (optim.batch_size={size})"] = 4 * size * num_tokens * m.d_model
        needs[f"training examples (data.num_examples={count})"] = count * num_tokens
    return needs


def _memory() -> int:
    """Bytes of the machine or of its largest GPU, whichever is more."""
    main = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    gpus = range(torch.cuda.device_count())
    return max(main, *(torch.cuda.get_device_properties(gpu).total_memory for gpu in gpus), 0)


# Trained models ---------------------------------------------------------------------------------


def open_model(
    file: Path, device: torch.device, *, trust_code: bool = False
) -> tuple[Transformer, TrialConfig]:
    """The model of a checkpoint on a device.

    Raises ValueError as `unpack_model`, and if such a model cannot fit here.
    """
    if file.is_dir():
        names = sorted(path.name for path in file.glob("*.pt"))
        hint = f"; it holds {', '.join(names[:5])}" if names else ""
        raise ValueError(f"{file} is a folder, not a checkpoint file{hint}")
    if not file.is_file():
        raise ValueError(f"no checkpoint at {file}")
    data, name = file.read_bytes(), str(file)
    flat = read_settings(data, name)
    check_trial(unflatten(flat, trust_code=trust_code, file=name), training=False)
    model, config = unpack_model(data, name, trust_code=trust_code)
    set_threads(None, config)
    return model.to(device), config
