"""How much work of each kind a trial is: what its duration depends on, whatever the machine.

Counts what this implementation does: ragged batches on a CPU, the last block at targets
only, evaluation in parts of as many examples as fit (`pcore.evaluation.predict`).
`pcore.evaluation.flops` counts what the
computation needs. `sweeps.engine.prices.cost_model` fits seconds per unit of each amount.
"""

import dataclasses
import functools
import math
from typing import NamedTuple

import torch

from pcore.config import ModelConfig, PositionConfig, TrialConfig
from pcore.config.seeding import make_generator
from pcore.encodings import Encoding, find_encoding
from pcore.encodings.position_ids import draw_position_ids, num_levels, select_relative_ids
from pcore.evaluation.predict import examples_per_part
from pcore.evaluation.test_sets import evaluation_lengths
from pcore.model.packing import Rows, pack, phases
from pcore.model.ragged import make_ragged
from pcore.model.shared_tokens import find_distinct
from pcore.model.targets import make_batch
from pcore.tasks import Task

SAMPLE = 256  # examples drawn to see how long they are and how their batches are cut
MAX_SAMPLE = 1024  # of one batch; larger ones are taken as multiples of it
HELD_OUT = 1000  # examples of a candidate set


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """Amounts of one trial, its training or its evaluation.

    calls: steps of training, or 1 for an evaluation. blocks: parts of batches times blocks, what
    comes before and after all of them counted as one more. parameter_steps: parameters times
    optimizer steps. tokens: of all batches, padding included. multiplications: floating-point
    operations of matrix products. scores: elements of attention matrices. biased_scores: those to
    which an encoding adds a bias, times its levels; learned_biases: likewise, if the bias is
    trained. rotations: elements of rotated queries and keys. activations: elements of all other
    tensors of blocks. drawn_tokens: tokens of examples made.
    Backward passes count as twice the forward one.
    """

    calls: float
    blocks: float
    parameter_steps: float
    tokens: float
    multiplications: float
    scores: float
    biased_scores: float
    learned_biases: float
    rotations: float
    activations: float
    drawn_tokens: float

    def amounts(self) -> tuple[float, ...]:
        """All amounts in the order of `AMOUNTS`."""
        return tuple(getattr(self, name) for name in AMOUNTS)


AMOUNTS = tuple(f.name for f in dataclasses.fields(Work))


class _Pass(NamedTuple):
    """Forward passes over so many examples in all, of T tokens, with logits at R places of each."""

    num_passes: float
    num_examples: float
    num_tokens: int
    num_targets: int


def count_training(config: TrialConfig, device: str = "cpu") -> Work:
    """The work of all training steps, measuring candidates for `best` and `oracle` included.

    device: a CPU cuts batches into parts of like length.
    """
    steps, batch_size = config.optim.num_steps, config.optim.batch_size
    data = config.data
    amounts: dict[str, float] = dict.fromkeys(_FORWARD, 0.0)
    batches = _typical_batches(config, device == "cpu")
    for batch, share in batches:
        forward = _forward(config, batch.passes, batch.shared)
        amounts = {name: amounts[name] + 3 * steps * share * forward[name] for name in amounts}
    for length in _candidate_lengths(config):
        checks = _forward(config, (_passes(config.task, config.model, HELD_OUT, length, None),))
        amounts = {name: amounts[name] + config.eval.num_checks * checks[name] for name in amounts}
    fresh = steps * batch_size if data.num_examples is None else 0
    return Work(
        calls=steps,
        parameter_steps=steps * count_parameters(config),
        drawn_tokens=fresh * batches[0][0].num_tokens,
        **amounts,
    )


def count_evaluation(config: TrialConfig) -> Work:
    """The work beside training steps: evaluating every checkpoint policy at every length, and
    making the fixed list of training examples if there is one.

    The first block makes queries, keys and values of equal tokens once
    (`pcore.model.shared_tokens`), which is next to nothing; randomized IDs leave few tokens equal.
    """
    shapes = [
        _passes(config.task, config.model, config.eval.examples_at(length), length, second)
        for lengths in evaluation_lengths(config).values()
        for length in lengths
        for second in config.eval.second_lengths or (None,)
    ]
    repeats, data, fixed = len(config.eval.checkpoints), config.data, 0.0
    if data.num_examples is not None:
        fixed = data.num_examples * _typical_batches(config, True)[0][0].num_tokens
    forward = _forward(config, tuple(shapes), config.position.ids != "randomized")
    amounts = {name: repeats * amount for name, amount in forward.items()}
    return Work(
        calls=1.0,
        parameter_steps=0.0,
        drawn_tokens=fixed + repeats * sum(s.num_examples * s.num_tokens for s in shapes),
        **amounts,
    )


def count_parameters(config: TrialConfig) -> float:
    """Trained parameters of the blocks, the symbols and the encoding, without gains of norms."""
    m = config.model
    blocks = m.num_layers * m.d_model * (4 * m.num_heads * m.d_head + 3 * m.d_ff)
    if m.attention_sink == "learned":
        blocks += m.num_layers * m.num_heads * m.d_head
    symbols = len(config.task.vocab) * m.d_model
    return float(blocks + symbols + _encoding_traits(config).num_parameters)


def _forward(
    config: TrialConfig, passes: tuple[_Pass, ...], shared: bool = False
) -> dict[str, float]:
    """Amounts of these forward passes together; shared: without the first block's projections."""
    m = config.model
    inner = m.num_heads * m.d_head
    traits = _encoding_traits(config)
    rotated = inner * traits.rotates
    totals: dict[str, float] = dict.fromkeys(_FORWARD, 0.0)
    for num_passes, count, num_tokens, num_targets in passes:
        keys = m.num_layers * num_tokens
        queries = (m.num_layers - 1) * num_tokens + num_targets
        scores = m.num_heads * num_tokens * queries
        products = 4 * m.d_model * inner * (keys + queries) + 6 * m.d_model * m.d_ff * queries
        products += 4 * m.d_head * scores + 2 * m.d_model * len(config.task.vocab) * num_targets
        if shared:
            first_queries = num_tokens if m.num_layers > 1 else num_targets
            products -= 2 * m.d_model * inner * (2 * num_tokens + first_queries)
        totals["blocks"] += num_passes * (m.num_layers + 1)
        totals["tokens"] += count * num_tokens
        totals["multiplications"] += count * products
        totals["scores"] += count * scores
        totals["biased_scores"] += count * scores * traits.biased_levels
        if traits.num_parameters:
            totals["learned_biases"] += count * scores * traits.biased_levels
        totals["rotations"] += count * rotated * (keys + queries)
        totals["activations"] += count * (
            keys * (2 * m.d_model + 2 * inner) + queries * (4 * m.d_model + 2 * inner + 4 * m.d_ff)
        )
    return totals


_FORWARD = (
    "blocks",
    "tokens",
    "multiplications",
    "scores",
    "biased_scores",
    "learned_biases",
    "rotations",
    "activations",
)


class _Traits(NamedTuple):
    """What an encoding does in the model, as far as it takes time."""

    biased_levels: int
    rotates: bool
    num_parameters: int


def _encoding_traits(config: TrialConfig) -> _Traits:
    levels = num_levels(config.task, config.position)
    return _find_traits(config.position, config.model, levels)


@functools.lru_cache(maxsize=1024)
def _find_traits(position: PositionConfig, model: ModelConfig, levels: int) -> _Traits:
    cls = find_encoding(position.encoding)
    encoding = cls(position, model, levels, make_generator("cost"))
    count = sum(p.numel() for p in encoding.parameters() if p.requires_grad)
    biased = levels * (cls.bias is not Encoding.bias)
    return _Traits(biased, cls.rotate is not Encoding.rotate, count)


@functools.lru_cache(maxsize=4096)
def _passes(
    task: Task, model: ModelConfig, num_examples: int, length: int, second: int | None
) -> _Pass:
    """The passes of a test set of the largest examples of this length."""
    layout = task.layout(task.largest_shape(length, second))
    num_tokens = len(layout.sources) + 1  # BOS; nothing is predicted from EOS
    count = math.ceil(num_examples / examples_per_part(model, num_tokens))
    return _Pass(count, num_examples, num_tokens, len(layout.sources) - layout.num_query + 1)


class _Typical(NamedTuple):
    """A typical training batch: its forward passes, tokens of an example, and whether so many of
    its tokens are equal that the first block makes their queries, keys and values once.

    Numbers are means over several batches, so they need not be whole.
    """

    passes: tuple[_Pass, ...]
    num_tokens: float
    shared: bool


def _typical_batches(config: TrialConfig, cut: bool) -> list[tuple[_Typical, float]]:
    """A typical batch of each number of problems in a row, and its share of the steps."""
    lengths = config.data.min_length, config.data.max_length
    return [
        (_typical_batch(config.task, config.position, *lengths, rows, cut), share)
        for rows, share in phases(config)
    ]


@functools.lru_cache(maxsize=1024)
def _typical_batch(
    task: Task, position: PositionConfig, low: int, high: int, rows: Rows, cut: bool
) -> _Typical:
    """cut: into parts of like length."""
    size, per_row = min(rows.num_problems, MAX_SAMPLE), rows.per_row
    num_packed = max(1, rows.num_packed * size // (rows.num_problems * per_row)) * per_row
    row = Rows(per_row, num_packed, size).number(1, torch.device("cpu"))
    repeats, rng = max(1, SAMPLE // size), make_generator("cost")
    id_rng = make_generator("cost", "ids")
    passes: list[_Pass] = []
    num_tokens, shared = 0, False
    for _ in range(repeats):
        drawn = task.sample_mixture(size, low, high, rng)
        num_tokens += int((drawn.tokens != 0).sum())
        ids = draw_position_ids(select_relative_ids(drawn, position, task), position, id_rng)
        whole = make_batch(drawn.tokens, ids, drawn.response_mask)
        if per_row > 1:
            whole = pack(whole, row)
        shapes = [(*whole.tokens.shape, whole.places.shape[1])]
        if cut:
            ragged = make_ragged(*whole)
            shapes = [(p.num_rows, p.num_tokens, p.places.shape[1]) for p in ragged.parts]
            uses_ids = find_encoding(position.encoding).uses_ids
            shared = find_distinct(ragged.tokens, ragged.ids, uses_ids).worth_sharing
        for num_rows, width, targets in shapes:
            count = num_rows * rows.num_problems / (size * repeats)
            passes.append(_Pass(1 / repeats, count, width, targets))
    return _Typical(tuple(passes), num_tokens / (size * repeats), shared)


def _candidate_lengths(config: TrialConfig) -> list[int]:
    """One typical length for each policy other than `last`."""
    lengths: list[int] = []
    if "best" in config.eval.checkpoints:
        lengths.append(config.data.max_length)
    if "oracle" in config.eval.checkpoints:
        lengths.append(max(config.eval.test_lengths))
    return lengths
