"""Which examples are evaluated, and at which position IDs; independent of seed and device."""

import hashlib

import torch
from jaxtyping import Int
from torch import Tensor

from pcore.config import PositionConfig, TrialConfig, flatten
from pcore.config.seeding import make_generator
from pcore.encodings.position_ids import select_relative_ids, test_position_ids
from pcore.tasks.base import Batch


def evaluation_lengths(config: TrialConfig) -> dict[str, tuple[int, ...]]:
    """Lengths per range.

    The train range is all trained lengths unless the configuration names some.
    """
    every = tuple(range(config.data.min_length, config.data.max_length + 1))
    return {
        "train": config.eval.train_lengths or every,
        "near": config.eval.near_lengths,
        "test": config.eval.test_lengths,
    }


def make_test_set(config: TrialConfig, length: int, second: int | None = None) -> Batch:
    """The test examples of a task at a length.

    Made on the CPU, the same for every arm, seed and device.
    Formats of one task share the numbers too, so that a format ablation is paired.
    """
    rng = make_generator("test", flatten(config)["task.name"], length, second)
    return config.task.sample_length(config.eval.examples_at(length), length, rng, second)


def make_held_out_set(config: TrialConfig) -> Batch:
    """Examples of the train range on which the best checkpoint is chosen.

    Disjoint randomness from training.
    """
    rng = make_generator("held-out", flatten(config)["task.name"])
    data = config.data
    return config.task.at_test().sample_mixture(1000, data.min_length, data.max_length, rng)


def hash_batch(batch: Batch) -> str:
    """8 hex digits that name a set of examples."""
    return hashlib.sha256(batch.tokens.to(torch.uint8).numpy().tobytes()).hexdigest()[:8]


def evaluation_ids(
    batch: Batch, config: TrialConfig, position: PositionConfig | None = None
) -> Int[Tensor, "B T P"]:
    """Position IDs of a test set; `position`: another policy than the configured one."""
    position = position or config.position
    return test_position_ids(select_relative_ids(batch, position, config.task), position)
