"""The settings of a trial: frozen dataclasses, one per group.

Defaults are the published settings of addition, 1 layer, trained on 1-30 digits (arXiv 2405.20671,
table of hyper-parameters). `option` declares the bounds of a field; `pcore.validation` checks what
concerns several fields at once. `pcore.config` turns a trial into a flat dictionary and back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from pcore.tasks import Task
from pcore.tasks.addition import Addition
from pcore.tasks.candidates import Candidate

MIN_EXAMPLES = 20  # of a length, whatever eval.length_budget says
MAX_OUTCOMES = 10_000  # examples of a length whose single outcomes are kept
MAX_LENGTH = 10_000  # the layout of an example is built in plain Python
MAX_COUNT = 10**9  # of steps, examples or IDs; nobody means more


def option(
    default: Any,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
    later: bool = False,
) -> Any:
    """A field with its bounds, for a tuple those of every entry: low and high can be taken, above
    and below not. later: added after trials had ids; at its default it hashes as if it were absent.
    """
    bounds = {"low": low, "high": high, "above": above, "below": below}
    metadata: dict[str, Any] = {name: end for name, end in bounds.items() if end is not None}
    return field(default=default, metadata=metadata | ({"absent": default} if later else {}))


@dataclass(frozen=True, kw_only=True, slots=True)
class PositionConfig:
    """How relative IDs become position IDs and act in the model.

    encoding: a name of `pcore.encodings.ENCODINGS` or `package.module:Class`.
    ids: coupled = the task's relative IDs; sequential = 0, 1, 2, ... over query, '=' and response;
        abacus = index of a digit inside its run of digits; randomized = a sorted random subset of
        [1, max_position], one ID per token, drawn at test time too (start and test_* do not apply);
        candidates = couplings that follow from the tokens alone (`pcore.tasks.candidates`).
    candidate: which candidate; all = every candidate as a separate level.
    start: where counting starts in training. fixed = 1; random = uniform in
        [1, max_position - largest relative ID]; wrapped = uniform in [1, max_position], IDs beyond
        max_position go on at 1.
    max_start: largest random start; 0 = as far as max_position allows.
    test_policy: where counting starts in evaluation. fixed = at test_start; random and wrapped as
        in training, from a generator shared by all trials.
    test_start: the ID at which counting starts in evaluation when test_policy is fixed.
    max_position: largest position ID. max_positions: one per level instead; () = the same.
    level_tables: one table (learned) or set of weights (t5, fire) for all levels, or one per level.
    id_scale_max: in training all IDs of a batch are multiplied by one random integer in
        [1, id_scale_max].
    table_init: rows of a learned table. normal = N(0, 1); orthogonal = orthogonal rows of norm
        sqrt(d_model); rotation = powers of one rotation with evenly spaced frequencies (orthogonal
        too up to d_model rows), seen through a random orthogonal matrix. freeze_table: do not train
        it.
    rotary_base: base of the rotary frequencies.
    moduli: of the rings of encoding=residues, pairwise coprime; max_position is at most their
        product.
    """

    encoding: str = "learned"
    ids: Literal["coupled", "sequential", "abacus", "randomized", "candidates"] = "coupled"
    candidate: Candidate = option("all", later=True)
    start: Literal["fixed", "random", "wrapped"] = "random"
    max_start: int = option(0, low=0, high=MAX_COUNT)
    test_policy: Literal["fixed", "random", "wrapped"] = "fixed"
    test_start: int = option(1, low=1, high=MAX_COUNT)
    max_position: int = option(202, low=1, high=MAX_COUNT)
    max_positions: tuple[int, ...] = option((), low=1, high=MAX_COUNT)
    level_tables: Literal["shared", "separate"] = "shared"
    id_scale_max: int = option(1, low=1, high=MAX_COUNT)
    table_init: Literal["normal", "orthogonal", "rotation"] = "normal"
    freeze_table: bool = False
    rotary_base: float = option(10000.0, above=0, high=MAX_COUNT)
    moduli: tuple[int, ...] = option((), later=True)

    def level_limits(self, num_levels: int) -> tuple[int, ...]:
        """Largest position ID on each level. Raises ValueError if max_positions names others."""
        if not self.max_positions:
            return (self.max_position,) * num_levels
        if len(self.max_positions) != num_levels:
            raise ValueError(
                f"position.max_positions has {len(self.max_positions)} entries, "
                f"position.ids={self.ids} has {num_levels} level(s) of IDs here"
            )
        return self.max_positions


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """Decoder-only Transformer. norm_placement: before and after each sublayer (both), or only one
    of them.

    attention_scale: none = raw dot products (published); log-length = times log(number of visible
        keys). log_base: base of that logarithm; with that many keys logits are raw dot products.
        0 = e, which makes them several times as steep from the first step on.
    query_init: normal = query weights as random as the others (published); zero = all 0, so that
        no two positions attend to each other by chance at first (Yang et al. 2022,
        arXiv 2203.03466, appendix D.2).
    kind: trained, or constructed = hand-written weights from the task's theorem (`pcore.theory`),
        evaluated as they are; all other fields of this group then have no effect.
    attention_sink: none = weights add up to 1 over the visible keys (published); learned = each
        head has an extra learned key without a value, where attention can go when nothing matches.
        Its logit depends on the query like all others.
    num_bits: P of a constructed model, bits of a position vector; 0 = trained.
    attention: how scores become weights, a name of `pcore.mixing.ATTENTIONS` or
        `package.module:Class`; softmax = published.
    mixer: what mixes tokens, a name of `pcore.mixing.MIXERS` or `package.module:Class`:
        one for all layers, or one for each.
    num_loops: how often the same layers run, with the same weights.
    input_injection: add the embedded tokens at the start of every loop (Fan et al. 2024,
        arXiv 2409.15647; there the number of loops grows with the length, here it is fixed).
    """

    num_layers: int = option(1, low=1, high=1000)
    num_heads: int = option(4, low=1, high=10_000)
    d_model: int = option(512, low=1, high=100_000)
    d_head: int = option(128, low=1, high=100_000)
    d_ff: int = option(2048, low=1, high=1_000_000)
    norm: Literal["rms", "layer"] = "rms"
    norm_placement: Literal["both", "pre", "post"] = "both"
    attention_scale: Literal["none", "log-length"] = "none"
    query_init: Literal["normal", "zero"] = option("normal", later=True)
    kind: Literal["trained", "constructed"] = option("trained", later=True)
    num_bits: int = option(0, low=0, later=True)
    attention_sink: Literal["none", "learned"] = option("none", later=True)
    log_base: int = option(0, low=0, high=1_000_000, later=True)
    attention: str = option("softmax", later=True)
    mixer: tuple[str, ...] = option(("attention",), later=True)
    num_loops: int = option(1, low=1, high=1000, later=True)
    input_injection: bool = option(False, later=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class DataConfig:
    """Training examples: lengths in [min_length, max_length]; `num_examples` made once, or None for
    endless fresh ones. The rest is about rows of several problems (`pcore.packing`).

    problems_per_row: K, how many problems follow one another in a row of tokens; several numbers
        are a schedule. optim.batch_size counts problems whatever K is.
    packing_begins: the share of the steps from which each K but the first acts.
    packed_order: how IDs count through a row. problem = each problem by itself, from a start of its
        own; random and wrapped starts are drawn so that the ranges of IDs of a row do not touch.
        row = on from problem to problem, a start per row: a row is then one long sequence
        (sequential and randomized IDs only).
    packed_overlap: the share of rows in which ranges overlap on one level, drawn from those that no
        token has alone: tokens of two problems must then be told apart by the other levels.
    """

    min_length: int = option(1, low=1, high=MAX_LENGTH)
    max_length: int = option(30, low=1, high=MAX_LENGTH)
    num_examples: int | None = option(1_000_000, low=1, high=MAX_COUNT)
    problems_per_row: tuple[int, ...] = option((1,), low=1, later=True)
    packing_begins: tuple[float, ...] = option((), above=0, below=1, later=True)
    packed_order: Literal["problem", "row"] = option("problem", later=True)
    packed_overlap: float = option(0.0, low=0, high=1, later=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimConfig:
    """AdamW. The learning rate rises linearly over `warmup_fraction` of the steps, then falls by a
    cosine to `final_lr_fraction` of its top. `weight_decay` falls by a cosine over all steps to
    `final_decay_fraction` of itself; 1 = constant. `grad_clip`: largest global norm, 0 = off."""

    learning_rate: float = option(1e-4, above=0, high=1000)
    num_steps: int = option(50_000, low=0, high=MAX_COUNT)
    batch_size: int = option(1000, low=1, high=MAX_COUNT)
    warmup_fraction: float = option(0.01, low=0, high=1)
    final_lr_fraction: float = option(0.1, low=0, high=1)
    beta1: float = option(0.9, low=0, below=1)
    beta2: float = option(0.999, low=0, below=1)
    eps: float = option(1e-8, above=0, high=1)
    weight_decay: float = option(0.0, low=0, high=1000)
    final_decay_fraction: float = option(1.0, low=0, high=1, later=True)
    grad_clip: float = option(1.0, low=0, high=MAX_COUNT)


@dataclass(frozen=True, kw_only=True, slots=True)
class EvalConfig:
    """What is measured. Lengths are tuples; as text "12", "1-10", "5-200:5" or a comma-separated
    mix.

    train_lengths: lengths of the train range to report; () = all of them. near_lengths: for tuning;
        never reported as the result. test_lengths: the reported range; never used for any choice.
    second_lengths: for tasks with two lengths, crossed with all of the above; () = the task's own
        (num_operands, a square).
    num_examples: test examples per length. length_budget: above 0, a test set of length L holds no
        more than length_budget / L, but 20, so that long lengths take about as long as short ones.
    checkpoints: which checkpoints are evaluated. last; best = least loss on held-out examples of
        the train range; oracle = least loss at the largest test length, which leaks the test range:
        only to compare with the paper.
    num_checks: how often during training the candidates for best and oracle are measured.
    attention_factor: multiplies attention logits in evaluation only (1 = off).
    """

    train_lengths: tuple[int, ...] = option((), low=1, high=MAX_LENGTH)
    near_lengths: tuple[int, ...] = option((), low=1, high=MAX_LENGTH)
    test_lengths: tuple[int, ...] = option(tuple(range(35, 201, 5)), low=1, high=MAX_LENGTH)
    second_lengths: tuple[int, ...] = option((), low=1, high=MAX_LENGTH)
    num_examples: int = option(2000, low=1, high=MAX_COUNT)
    checkpoints: tuple[str, ...] = ("last",)
    num_checks: int = option(20, low=1, high=MAX_COUNT)
    attention_factor: float = option(1.0, above=0, high=1000)
    length_budget: int = option(0, low=0, later=True)

    def examples_at(self, length: int) -> int:
        """How many examples a test set of this length holds."""
        if not self.length_budget:
            return self.num_examples
        return min(self.num_examples, max(MIN_EXAMPLES, self.length_budget // length))


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialConfig:
    """One trial, completely.

    `seed` decides initial weights, `data_seed` the examples, their order and their starts.
    """

    task: Task = field(default_factory=Addition)
    position: PositionConfig = field(default_factory=PositionConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    seed: int = 0
    data_seed: int = 0
