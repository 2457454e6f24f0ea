"""Rows of several problems, and rows of a fixed shape.

- **Packed**: several problems in one row, trained as one sequence.

      $ 653+49=2070 12+34=640 8+7=51        K = 3

  The row has BOS once, at its front; EOS is a target at the last response token of every problem,
  but not an input token: otherwise a row would contain the boundary symbol K times and a test
  sequence once. Attention is causal over the whole row. Later problems see earlier ones as keys to
  ignore, at ID distances that no short example contains, while no single problem exceeds the
  trained lengths. `problems_per_row` is a schedule: a model that does not yet fit single problems
  does not fit many.
- **Static**, for a GPU: padded to the longest trained example, so that every step is the same
  computation, compiled once, and reads no tensor values on the host. Padding changes only the order
  of additions: nothing after the last real token is read, and a padded target has no loss.
"""

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F

from pcore.batch import NO_TARGET, TrainingBatch
from pcore.config import TrialConfig

WIDTH_UNIT = 8  # kernels of attention want the number of keys in multiples of this
RARE_UNIT = 32  # shapes beyond the usual one come in multiples of this, so that they are few


def find_per_row(config: TrialConfig, step: int) -> int:
    """How many problems a row of the batch of step 0, 1, ... holds."""
    data = config.data
    begins = (round(share * config.optim.num_steps) for share in data.packing_begins)
    return data.problems_per_row[sum(step >= begin for begin in begins)]


def phases(config: TrialConfig) -> list[tuple[int, float]]:
    """Problems per row, and for which share of the steps, in the order of training."""
    ends = (*config.data.packing_begins, 1.0)
    shares = [end - begin for begin, end in zip((0.0, *ends), ends, strict=False)]
    return list(zip(config.data.problems_per_row, shares, strict=True))


def tokens_before(problems: TrainingBatch, row: Int[Tensor, " B"]) -> Int[Tensor, " B"]:
    """How many tokens of its row stand between BOS and each problem."""
    return _sum_before(_count_tokens(problems), row)


def pack(problems: TrainingBatch, row: Int[Tensor, " B"], no_id: int = 0) -> TrainingBatch:
    """Rows of problems.

    problems: one in each row, each with its own BOS. row: of each problem, rising from 0 without a
    gap. no_id: the ID of BOS and padding. Waits for the device to know the widest row.
    """
    tokens, ids, places, targets, _ = problems
    lengths = _count_tokens(problems)
    counts = (targets != NO_TARGET).sum(dim=1)
    before, targets_before = _sum_before(lengths, row), _sum_before(counts, row)
    ends = torch.stack([before + lengths, targets_before + counts]).amax(dim=1).tolist()
    num_rows, width, num_targets = int(row[-1]) + 1, 1 + ends[0], ends[1]

    def lay(values: Tensor, at: Tensor, inside: Tensor, whole: Tensor) -> Tensor:
        """Copy what is inside to its row; all else goes to a column that is cut off."""
        at = at.where(inside, whole.shape[1] - 1)
        return whole.index_put_((row.unsqueeze(1).expand_as(at), at), values)[:, :-1]

    inner = torch.arange(1, tokens.shape[1], device=tokens.device)
    at, inside = before.unsqueeze(1) + inner, inner <= lengths.unsqueeze(1)
    bos = tokens.new_zeros(num_rows, width + 1)
    bos[:, 0] = tokens[0, 0]
    order = torch.arange(places.shape[1], device=tokens.device)
    target_at, real = targets_before.unsqueeze(1) + order, order < counts.unsqueeze(1)
    moved = places + before.unsqueeze(1)
    last = places.new_zeros(num_rows).index_add_(0, row, lengths)  # EOS is due at the last token
    return TrainingBatch(
        lay(tokens[:, 1:], at, inside, bos),
        lay(ids[:, 1:], at, inside, ids.new_full((num_rows, width + 1, ids.shape[2]), no_id)),
        lay(moved, target_at, real, last.unsqueeze(1).repeat(1, num_targets + 1)),
        lay(targets, target_at, real, targets.new_full((num_rows, num_targets + 1), NO_TARGET)),
    )


def _count_tokens(problems: TrainingBatch) -> Int[Tensor, " B"]:
    """Tokens of each problem, without BOS."""
    return (problems.tokens != 0).sum(dim=1) - 1


def _sum_before(sizes: Int[Tensor, " B"], row: Int[Tensor, " B"]) -> Int[Tensor, " B"]:
    """The sum of the sizes of the problems that stand in front of each in its row."""
    before = sizes.cumsum(dim=0) - sizes
    return before - before[torch.searchsorted(row, row)]


# Static -------------------------------------------------------------------------------------------


def pad_batch(batch: TrainingBatch, width: int, num_targets: int) -> TrainingBatch:
    """The same batch with `width` tokens and `num_targets` targets in a row."""
    tokens, ids, places, targets, _ = batch
    missing, more = width - tokens.shape[1], num_targets - places.shape[1]
    # A model reads R = T as "at every place"; the query in front of the targets rules that out.
    assert num_targets < width, (width, num_targets)
    return TrainingBatch(
        F.pad(tokens, (0, missing)),
        F.pad(ids, (0, 0, 0, missing)),
        torch.cat([places, places[:, -1:].expand(-1, more)], dim=1),
        F.pad(targets, (0, more), value=NO_TARGET),
    )


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


def packed_shape(num_tokens: int, num_targets: int) -> tuple[int, int]:
    """T and R of a static batch of packed rows of at most this many tokens and targets.

    Far below those of a row of longest problems, which never comes: the longest row of a block
    varies little, so that there are few shapes.
    """
    width = _round_up(num_tokens, RARE_UNIT)
    return width, min(_round_up(num_targets, RARE_UNIT), width - 1)


def _round_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit
