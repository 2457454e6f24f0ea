"""Shapes of static batches, for compiled training steps and for GPUs without synchronisation.

Every batch is padded to the longest example of the train range and to the largest number of
targets, so every step is the same computation: it is compiled once and reads no tensor values on
the host. Padding changes only the order of additions: nothing after the last real token is read,
and a padded target has no loss.
"""

from jaxtyping import Bool
from torch import Tensor

from pcore.config import TrialConfig

WIDTH_UNIT = 8  # kernels of attention want the number of keys in multiples of this
RARE_UNIT = 32  # shapes beyond the usual one come in multiples of this, so that they are few


def static_shape(config: TrialConfig, num_tokens: int, num_targets: int) -> tuple[int, int]:
    """T and R of a static batch that holds examples of these numbers of tokens and targets.

    Those of the longest trained shape, which almost every batch needs; a task that draws larger
    shapes gets a few larger ones.
    """
    task, longest = config.task, config.data.max_length
    layout = task.layout(task.largest_shape(longest))
    usual_width = _round_up(len(layout.sources) + 1, WIDTH_UNIT)  # BOS, without EOS
    usual_targets = len(layout.sources) - layout.num_query + 1
    width = usual_width if num_tokens - 1 <= usual_width else _round_up(num_tokens - 1, RARE_UNIT)
    if num_targets <= usual_targets:
        return width, usual_targets
    return width, min(_round_up(num_targets, RARE_UNIT), width - 1)


def count_targets(response_mask: Bool[Tensor, "B T"]) -> int:
    """The largest number of targets of an example; waits for the device."""
    return int(response_mask.sum(dim=1).max())


def packed_shape(num_tokens: int, num_targets: int) -> tuple[int, int]:
    """T and R of a static batch of packed rows of at most this many tokens and targets.

    Far below those of a row of longest problems, which never comes: the longest row of a block
    varies little, so that there are few shapes.
    """
    width = _round_up(num_tokens, RARE_UNIT)
    return width, min(_round_up(num_targets, RARE_UNIT), width - 1)


def _round_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit
