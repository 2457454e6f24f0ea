"""The cost of a trial from its configuration: tokens and floating-point operations.

Counts what the computation needs, not what the implementation executes: multiplications and
additions of matrix products, backward = twice forward; no norms, no activations, no padding of
batches to their longest example.
"""

from pcore.config import TrialConfig
from pcore.evaluation import evaluation_lengths, make_held_out_set
from pcore.packing import phases
from pcore.vocab import PAD_TOKEN


def count_flops(config: TrialConfig) -> float:
    """Operations of a whole trial: training and all evaluations."""
    lengths = [length for values in evaluation_lengths(config).values() for length in values]
    seconds = config.eval.second_lengths or (None,)
    evaluation = sum(
        config.eval.examples_at(length) * count_example_flops(config, length, second=second)
        for length in lengths
        for second in seconds
    )
    return count_train_flops(config) + evaluation * len(config.eval.checkpoints)


def count_train_flops(config: TrialConfig) -> float:
    """Operations of all training steps, every example taken as one of typical length."""
    size, length = config.optim.batch_size, typical_length(config)
    step = sum(
        share * (size * count_example_flops(config, length, per_row))
        for per_row, share in phases(config)
    )
    return 3 * (config.optim.num_steps * size) * (step / size)


def count_train_tokens(config: TrialConfig) -> int:
    """Tokens of all training examples, BOS and EOS included: their mean over 1,000 examples of the
    train range times the number of examples.
    """
    tokens = make_held_out_set(config).tokens
    mean = float((tokens != PAD_TOKEN).sum()) / len(tokens)
    return round(config.optim.num_steps * config.optim.batch_size * mean)


def count_example_flops(
    config: TrialConfig, length: int, per_row: int = 1, second: int | None = None
) -> float:
    """Operations of the forward pass of one example: all blocks on all tokens, but the last block's
    queries and feed-forward on targets only; other mixers counted as attention. per_row: examples
    of a row, all of which are its keys.
    """
    m, num_tokens = config.model, config.task.num_tokens(length, second)
    layout = config.task.layout(config.task.largest_shape(length, second))
    num_targets = len(layout.sources) - layout.num_query + 1
    inner = m.num_heads * m.d_head
    keys = 4 * m.d_model * inner
    queries = 4 * m.d_model * inner + 6 * m.d_model * m.d_ff + 4 * per_row * num_tokens * inner
    inside = (m.num_layers * m.num_loops - 1) * num_tokens * (keys + queries)
    outputs = num_targets * (queries + 2 * m.d_model * len(config.task.vocab))
    return inside + num_tokens * keys + outputs


def typical_length(config: TrialConfig) -> int:
    """The longer of two lengths drawn from the train range, in the mean."""
    data = config.data
    return max(data.min_length, round((data.min_length + 2 * data.max_length) / 3))
