"""Packed rows: several problems in one row of tokens, trained as one sequence.

    $ 653+049=2070 12+34=640 8+7=51        K = 3

The row has BOS once, at its front; EOS is a target at the last response token of every problem, but
not an input token: otherwise a row would contain the boundary symbol K times and a test sequence
once. Attention is causal over the whole row. Later problems see earlier ones as keys to ignore, at
ID distances that no short example contains, while no single problem exceeds the trained lengths.

`problems_per_row` is a schedule: a model that does not yet fit single problems does not fit many.
"""

from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from pcore.config import DataConfig, PositionConfig, TrialConfig
from pcore.encodings import find_encoding
from pcore.encodings.disjoint_starts import needed_ids
from pcore.encodings.position_ids import max_relative_ids
from pcore.model.targets import NO_TARGET, TrainingBatch
from pcore.registry import name_of
from pcore.tasks import TASKS


class Rows(NamedTuple):
    """How the problems of a batch are put into rows: the first `num_packed` `per_row` to a row,
    the others alone.
    """

    per_row: int
    num_packed: int
    num_problems: int

    @property
    def num_rows(self) -> int:
        return self.num_packed // self.per_row + self.num_problems - self.num_packed

    def number(self, num_batches: int, device: torch.device) -> Int[Tensor, " B"]:
        """The row of each problem in `num_batches` batches, numbered through."""
        packed = torch.arange(self.num_packed, device=device) // self.per_row
        first = self.num_packed // self.per_row
        rows = torch.cat([packed, torch.arange(first, self.num_rows, device=device)])
        batches = torch.arange(num_batches, device=device).unsqueeze(1)
        return (batches * self.num_rows + rows).flatten()


def find_rows(config: TrialConfig, step: int) -> Rows:
    """The rows of the batch of step 0, 1, ...

    At least the share `single_problems` stays alone: the least number that leaves whole rows.
    """
    data, num_problems = config.data, config.optim.batch_size
    begins = (round(share * config.optim.num_steps) for share in data.packing_begins)
    per_row = data.problems_per_row[sum(step >= begin for begin in begins)]
    return _rows(data, per_row, num_problems)


def phases(config: TrialConfig) -> list[tuple[Rows, float]]:
    """The rows of a batch, and for which share of the steps, in the order of training."""
    data = config.data
    ends = (*data.packing_begins, 1.0)
    shares = [end - begin for begin, end in zip((0.0, *ends), ends, strict=False)]
    rows = [_rows(data, k, config.optim.batch_size) for k in data.problems_per_row]
    return list(zip(rows, shares, strict=True))


def _rows(data: DataConfig, per_row: int, num_problems: int) -> Rows:
    if per_row == 1:
        return Rows(1, num_problems, num_problems)
    most = num_problems * (1 - data.single_problems)
    return Rows(per_row, int(most / per_row + 1e-9) * per_row, num_problems)


def tokens_before(problems: TrainingBatch, row: Int[Tensor, " B"]) -> Int[Tensor, " B"]:
    """How many tokens of its row stand between BOS and each problem."""
    return _sum_before(_count_tokens(problems), row)


def pack(problems: TrainingBatch, row: Int[Tensor, " B"], no_id: int = 0) -> TrainingBatch:
    """Rows of problems.

    problems: one in each row, each with its own BOS. row: of each problem, rising from 0 without a
    gap. no_id: the ID of BOS and padding. Waits for the device to know the widest row.
    """
    tokens, ids, places, targets = problems
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


def check_packing(config: TrialConfig) -> None:
    """Raise ValueError, in one sentence, for packed rows that cannot work."""
    data, begins = config.data, config.data.packing_begins
    if not data.problems_per_row or min(data.problems_per_row) < 1:
        raise ValueError("data.problems_per_row must hold numbers from 1 on, at least one")
    if len(begins) != len(data.problems_per_row) - 1:
        raise ValueError(
            f"data.packing_begins has {len(begins)} entries, data.problems_per_row="
            f"{_text(data.problems_per_row)} needs {len(data.problems_per_row) - 1}: the share of "
            "the steps from which each number but the first acts"
        )
    if list(begins) != sorted(set(begins)) or not all(0 < share < 1 for share in begins):
        raise ValueError(f"data.packing_begins={_text(begins)} must rise, between 0 and 1")
    if not 0 <= data.single_problems < 1:
        raise ValueError(f"data.single_problems={data.single_problems} must be in [0, 1)")
    if max(data.problems_per_row) == 1:
        default = DataConfig()
        for name in ("single_problems", "packed_order"):
            if (value := getattr(data, name)) != getattr(default, name):
                raise ValueError(
                    f"data.{name}={value} has no meaning with one problem in each row: "
                    f"leave it at {getattr(default, name)}"
                )
        return
    for rows, _ in phases(config):
        _check_batch(config, rows)
    _check_ids(config, max(data.problems_per_row))


def _check_batch(config: TrialConfig, rows: Rows) -> None:
    share, size = config.data.single_problems, config.optim.batch_size
    if not rows.num_packed:
        raise ValueError(
            f"data.problems_per_row: no row of {rows.per_row} problems can be made of "
            f"optim.batch_size={size} with data.single_problems={share}"
        )
    if not share and rows.num_packed < size:
        raise ValueError(
            f"optim.batch_size={size} counts problems and is not a multiple of {rows.per_row} "
            "(data.problems_per_row): with data.single_problems above 0 the rest stands alone"
        )


def _check_ids(config: TrialConfig, most: int) -> None:
    """Every ID of a row of `most` problems of the largest length must fit."""
    data, position, task = config.data, config.position, config.task
    encoding, by_row = find_encoding(position.encoding), data.packed_order == "row"
    if by_row and not (encoding.uses_ids and position.ids in ("sequential", "randomized")):
        raise ValueError(
            "data.packed_order=row counts IDs through a row, which has no meaning with "
            f"position.ids={position.ids} and position.encoding={position.encoding}"
        )
    if not encoding.uses_ids:
        return
    if position.ids == "randomized" and not by_row:
        raise ValueError(
            "position.ids=randomized draws one sorted subset of IDs for a row of problems: "
            "use data.packed_order=row"
        )
    apart = draws_apart(position, data)
    if apart and position.max_start:
        raise ValueError(
            f"position.max_start={position.max_start} cannot hold where the ranges of "
            "several problems in a row are kept apart: use position.max_position"
        )
    if not (apart or by_row):
        return  # every problem counts from the same place
    trained = task.trained_seconds(data.min_length, data.max_length)
    second = max(trained) if trained else None
    largest = max_relative_ids(task, position.ids, data.max_length, second, position.candidate)
    free = not (encoding.bounded or position.ids == "randomized" or position.start != "fixed")
    for limit, relative in zip(position.level_limits(len(largest)), largest, strict=True):
        needed = most * (relative + 1)
        if apart:
            needed = needed_ids([relative] * most, position.start == "wrapped")
        if needed > limit and not free:
            raise ValueError(
                f"position.max_position={limit} is below {needed}, which {most} problems of "
                f"{name_of(type(task), TASKS)} at length {data.max_length} in a row need "
                "(data.problems_per_row)"
            )


def draws_apart(position: PositionConfig, data: DataConfig) -> bool:
    """Whether the starts of problems in a row are drawn so that their ranges do not touch."""
    return data.packed_order == "problem" and position.start != "fixed"


def _text(values: tuple[float, ...]) -> str:
    return ",".join(map(str, values))
