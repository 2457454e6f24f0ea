"""Checkpoints on disk: the state of a running trial, and the weights of a finished one.

Both contain plain tensors and values (loaded with `weights_only=True`) and are converted to bytes,
so that they can be on any storage; a file is either complete or absent. A model checkpoint includes
its configuration, so that `pcore solve FILE` needs nothing else.
"""

import hashlib
import io
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pcore.config import Scalar, TrialConfig, check_bounds, flatten, trial_id, unflatten
from pcore.encodings import Learned, Residues, find_encoding
from pcore.files import write_file
from pcore.model import Transformer, make_model, mixing_parts
from pcore.registry import NOT_OWN

HASH_BYTES = 32  # at the end of a state


def save_model(path: str | Path, config: TrialConfig, weights: dict[str, Tensor]) -> None:
    """Write the weights of a trial."""
    write_file(Path(path), pack_model(config, weights))


def pack_model(config: TrialConfig, weights: dict[str, Tensor]) -> bytes:
    """The weights of a trial, as the bytes of a file."""
    weights = {name: tensor.cpu() for name, tensor in weights.items()}
    return _pack({"trial_id": trial_id(config), "config": flatten(config), "model": weights})


def load_model(path: str | Path, *, trust_code: bool = False) -> tuple[Transformer, TrialConfig]:
    """The model of a checkpoint, ready for evaluation on the CPU.

    Raises ValueError as `unpack_model`, and if there is no file.
    """
    file = Path(path)
    if file.is_dir():
        names = sorted(found.name for found in file.glob("*.pt"))
        hint = f"; it holds {', '.join(names[:5])}" if names else ""
        raise ValueError(f"{file} is a folder, not a checkpoint file{hint}")
    if not file.is_file():
        raise ValueError(f"no checkpoint at {file}")
    return unpack_model(file.read_bytes(), str(file), trust_code=trust_code)


def unpack_model(
    data: bytes, name: str, *, trust_code: bool = False
) -> tuple[Transformer, TrialConfig]:
    """The model in the bytes of a checkpoint file called `name`, ready for evaluation on the CPU.

    trust_code: import user code that it names. Raises ValueError if it is no model checkpoint, if
    it names code that is not trusted, if its weights are not those of its configuration or not
    finite; warns if code has changed since.
    """
    payload = _read(data, name)
    config = unflatten(payload["config"], trust_code=trust_code, file=name)
    check_bounds(config)
    if not _is_current(payload, config):
        warnings.warn(f"{name} was trained with other code than now", stacklevel=2)
    if config.model.kind == "constructed":
        raise ValueError(f"{name} is a constructed model, which only its own trial evaluates")
    try:
        _check_size(config, len(data), name)
        model = make_model(config)
        model.load_state_dict(payload["model"])
    except (RuntimeError, TypeError, AttributeError, KeyError, ZeroDivisionError) as error:
        reason = str(error).strip().rpartition("\n")[2].strip()
        raise ValueError(f"{name}: weights and configuration do not fit: {reason}") from error
    if not all(weights.isfinite().all() for weights in model.parameters()):
        raise ValueError(f"{name}: some weights are not finite, so this model answers nothing")
    return model.eval(), config


def is_model_of(data: bytes, name: str, config: TrialConfig) -> bool:
    """Whether a checkpoint is of this trial; raises ValueError if the bytes are none."""
    payload = _read(data, name)
    return payload["config"] == flatten(config) and _is_current(payload, config)


def _is_current(payload: dict[str, Any], config: TrialConfig) -> bool:
    """Whether own code is as it was in training; older files do not say."""
    now = trial_id(config)
    return payload.get("trial_id", now) == now


def _read(data: bytes, name: str) -> dict[str, Any]:
    try:
        payload = load_archive(data)
    except Exception as error:  # torch raises many kinds, and recommends to run such a file
        raise ValueError(f"{name} is not a readable checkpoint ({type(error).__name__})") from error
    if not isinstance(payload, dict) or not isinstance(payload.get("config"), dict):
        raise ValueError(f"{name} is not a model checkpoint of pcore")
    fields = payload["config"].items()
    if "model" not in payload or not all(
        isinstance(k, str) and isinstance(v, Scalar) for k, v in fields
    ):
        raise ValueError(f"{name} is not a model checkpoint of pcore")
    return payload


def pack_state(config: TrialConfig, state: dict[str, Any]) -> bytes:
    """The complete state of a running trial (`Report.state()`), as the bytes of a file. They end
    with a hash of the rest, so that nothing else is taken for a state.
    """
    data = _pack({"trial_id": trial_id(config), "state": state})
    return data + _hash(data)


def unpack_state(data: bytes, config: TrialConfig) -> dict[str, Any] | None:
    """The state to resume a trial from; None if it belongs to another trial or is not, byte for
    byte, what `pack_state` gave.
    """
    saved = _read_state(data)
    return saved["state"] if saved and saved["trial_id"] == trial_id(config) else None


def read_progress(data: bytes) -> tuple[int, int]:
    """Steps made and results found in the bytes of a state; (-1, 0) if it is none."""
    if (saved := _read_state(data)) is None:
        return -1, 0
    return saved["state"]["step"], len(saved["state"]["results"])


def _read_state(data: bytes) -> dict[str, Any] | None:
    data, end = data[:-HASH_BYTES], data[-HASH_BYTES:]
    return load_archive(data) if _hash(data) == end else None


def _hash(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def load_archive(data: bytes) -> Any:
    """What `torch.save` wrote; it takes no more memory than a few times these bytes.

    torch gets a copy of the parts that were looked at, since readers of zip files differ about
    damaged ones. Raises errors of many kinds.
    """
    copied = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(copied, "w") as copy:
        parts = archive.infolist()
        if any(part.compress_type != zipfile.ZIP_STORED for part in parts):
            raise ValueError("some parts are compressed, which torch never writes")
        if len({part.filename for part in parts}) < len(parts):
            raise ValueError("two parts have the same name")
        if sum(part.file_size for part in parts) > len(data):
            raise ValueError("its parts are larger than the file")
        for part in parts:
            copy.writestr(part, archive.read(part))  # checks the sum that torch ignores
    copied.seek(0)
    return torch.load(copied, map_location="cpu", weights_only=True)


def _check_size(config: TrialConfig, num_bytes: int, name: str) -> None:
    """Raise ValueError if matrices and tables of a trial need more bytes than there are. The
    weights of own code are not known; pcore's classes under their full names are no own code.
    """
    model, position = config.model, config.position
    encoding, rows = find_encoding(position.encoding), 0
    parts = [type(config.task), encoding, *mixing_parts(model).values()]
    if any(part.__module__.partition(".")[0] not in NOT_OWN for part in parts):
        return
    if issubclass(encoding, Learned):
        rows = max(position.max_positions or (position.max_position,))
    elif issubclass(encoding, Residues):
        rows = sum(position.moduli)
    each = 3 * model.d_ff + 4 * model.num_heads * model.d_head  # of a layer
    if (needed := 4 * model.d_model * (model.num_layers * each + rows)) > num_bytes:
        raise ValueError(
            f"{name}: weights and configuration do not fit: {needed:,} bytes of weights are more "
            f"than the {num_bytes:,} of the file"
        )


def _pack(payload: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    torch.save(payload, out)
    return out.getvalue()
