"""Checkpoints on disk: the state of a running trial, and the weights of a finished one.

Both are plain tensors and values (loaded with `weights_only=True`) and are written so that a file
is whole or absent. A model checkpoint carries its configuration, so that `pcore solve FILE` needs
nothing else.
"""

import os
import uuid
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pcore.config import TrialConfig, flatten, trial_id, unflatten
from pcore.model import Transformer, make_model


def save_model(
    path: str | Path, config: TrialConfig, weights: dict[str, Tensor], *, policy: str, step: int
) -> None:
    """Write the weights of a trial under one checkpoint policy."""
    weights = {name: tensor.cpu() for name, tensor in weights.items()}
    _save(Path(path), {"config": flatten(config), "policy": policy, "step": step, "model": weights})


def load_model(path: str | Path) -> tuple[Transformer, TrialConfig]:
    """The model of a checkpoint, ready for evaluation on the CPU.

    Raises ValueError if the file is not one.
    """
    payload = _load(Path(path))
    if not {"config", "model"} <= set(payload):
        raise ValueError(f"{path} is not a model checkpoint of pcore")
    config = unflatten(payload["config"])
    model = make_model(config)
    model.load_state_dict(payload["model"])
    return model.eval(), config


def save_state(path: str | Path, config: TrialConfig, state: dict[str, Any]) -> None:
    """Write the complete state of a running trial (`Report.state()`)."""
    _save(Path(path), {"trial_id": trial_id(config), "state": state})


def load_state(path: str | Path, config: TrialConfig) -> dict[str, Any] | None:
    """The state to resume a trial from.

    None if there is none, it is damaged or it belongs to another trial.
    """
    try:
        payload = _load(Path(path))
    except (ValueError, OSError):
        return None
    return payload["state"] if payload.get("trial_id") == trial_id(config) else None


def _save(path: Path, payload: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with temporary.open("wb") as file:
            torch.save(payload, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _load(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ValueError(f"no checkpoint at {path}")
    try:
        payload = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for a damaged file
        raise ValueError(f"{path} is not a readable checkpoint: {error}") from error
    if not isinstance(payload, dict):
        raise ValueError(f"{path} is not a checkpoint of pcore")
    return payload
