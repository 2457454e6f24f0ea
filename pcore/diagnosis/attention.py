"""What the heads of a trained model attend to, averaged over many examples of one length, beside
what the heads of the construction look at.

Theorem 5.1 of arXiv 2405.20671 adds with one layer and two heads. While a symbol is to be written,
its first head looks at BOS and at the operand digits of the *next* significance, those of the digit
to be written; its second one at BOS and at all tokens of the *same* significance, the current token
included. Both are statements about relative IDs, so they can be asked of any coupled task:

    next   BOS and the visible tokens with the ID of the symbol to be written
    same   BOS and the visible tokens with the ID of the current token (itself among them)

In addition the next ID is ID + 1. A symbol without an ID (EOS), or with one that nothing visible
shares, leaves BOS alone, as in the theorem. Queries are the tokens from '=' to the last response
symbol, whose next token is a target. BOS belongs to both patterns and draws most attention where a
head has nothing to do, so mass without it is the stricter number.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Literal, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from pcore.config import TrialConfig
from pcore.encodings import find_encoding
from pcore.evaluation import evaluating, evaluation_ids, make_test_set, with_examples
from pcore.mixing import Attention, Queries, Scores, Visible
from pcore.model import SelfAttention, Transformer
from pcore.tasks.base import NO_ID, Batch, Layout, Symbol
from pcore.validation import check_test_length, task_name

TOKENS_PER_BATCH = 8192  # bounds the memory of attention matrices, does not change results
MAX_WEIGHTS = 10**11  # of all examples: minutes on a core
MAX_WEIGHTS_AT_ONCE = 5 * 10**8  # of one example: gigabytes
Pattern: TypeAlias = Literal["next", "same"]
PATTERNS: tuple[Pattern, Pattern] = ("next", "same")


class NothingToAverage(ValueError):
    """A layer has another mixer, or no example that was drawn has the layout that is averaged."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Likeness:
    """How much a head, or even attention to all visible keys, is like a pattern on a level."""

    pattern: Pattern
    level: str
    mass: float  # attention on the predicted keys, averaged over queries
    mass_beyond_bos: float  # the same without BOS
    most_beyond_bos: float  # its bound: the share of queries with a predicted key other than BOS


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """What one head does, averaged over the queries from '=' on and over examples."""

    layer: int
    head: int
    bos: float  # weight of BOS
    likenesses: tuple[Likeness, ...]  # by pattern and level; () without coupled IDs


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionMap:
    """Attention averaged over examples of one length and layout; T tokens, EOS not among them."""

    length: int
    num_examples: int
    num_left_out: int  # examples of that length with another layout (a shorter response, say)
    factor: float  # on the logits, as in evaluation
    labels: tuple[str, ...]
    first_query: int  # index of '='
    weights: Float[Tensor, "L H T T"]
    predicted: Float[Tensor, "P 2 Q T"] | None  # attention of the construction by level, pattern
    heads: tuple[Head, ...]
    even: tuple[Likeness, ...]  # of even attention, the baseline


@torch.no_grad()
def attention_weights(
    model: Transformer, tokens: Int[Tensor, "B T"], ids: Int[Tensor, "B T P"]
) -> Float[Tensor, "L B H T T"]:
    """The attention weights of every layer, in float32, once for each loop; those of a softmax add
    up to 1 if there is no sink. Raises NothingToAverage if a layer has none.
    """
    weights: list[Tensor] = []
    own: list[tuple[SelfAttention, Attention]] = []
    for layer in (block.attention for block in model.layers):
        if not isinstance(layer, SelfAttention):
            mixer = model.config.mixer[layer.layer % len(model.config.mixer)]
            raise NothingToAverage(f"layer {layer.layer + 1} has no attention: model.mixer={mixer}")
        own.append((layer, layer.weigh))
    try:
        for layer, weigh in own:
            layer.weigh = Recorder(weigh, weights)
        model(tokens, ids)
    finally:
        for layer, weigh in own:
            layer.weigh = weigh
    return torch.stack(weights)[..., -tokens.shape[1] :]  # a sink comes first, and is no token


class Recorder(Attention):
    """Keeps the weights that an attention makes of scores. It is not `separable`, so that all
    queries come at once, and no plain softmax, so that no fused kernel takes its place.
    """

    def __init__(self, own: Attention, weights: list[Tensor]):
        nn.Module.__init__(self)
        self.own, self.weights = own, weights

    def forward(self, scores: Scores, visible: Visible, queries: Queries) -> Scores:
        self.weights.append(self.own(scores, visible, queries))
        return self.weights[-1]


def average_attention(
    model: Transformer, config: TrialConfig, length: int, num_examples: int = 1000
) -> AttentionMap:
    """Attention of a trained model at one length, as it is evaluated (start, attention factor).

    Raises ValueError for more attention weights than can be computed in minutes.
    """
    second = check_test_length(config, length)
    _check_weights(config, length, second, num_examples)
    task, levels = config.task, config.task.levels
    layout = task.at_test().layout(task.largest_shape(length, second))
    batch, ids, num_left_out = _draw_examples(config, layout, length, second, num_examples)
    first_query, keys = layout.num_query, None
    if config.position.ids == "coupled" and find_encoding(config.position.encoding).uses_ids:
        keys = predicted_keys(batch.relative_ids[0], first_query)
    device, total = model.embedding.device, torch.zeros((), dtype=torch.float64)
    with evaluating(model, config.eval.attention_factor):
        for rows in torch.arange(len(ids)).split(max(1, TOKENS_PER_BATCH // ids.shape[1])):
            inputs = (tensor[rows, :-1].to(device) for tensor in (batch.tokens, ids))
            total = total + attention_weights(model, *inputs).cpu().double().sum(dim=1)
    weights = (total / len(ids)).float()
    even = even_weights(visible_keys(first_query, ids.shape[1] - 1))
    return AttentionMap(
        length=length,
        num_examples=len(ids),
        num_left_out=num_left_out,
        factor=config.eval.attention_factor,
        labels=(task.bos, *label_tokens(layout)),
        first_query=first_query,
        weights=weights,
        predicted=None if keys is None else even_weights(keys),
        heads=tuple(
            Head(
                layer=layer,
                head=number,
                bos=float(head[:, 0].mean()),
                likenesses=compare(head, keys, levels),
            )
            for layer, heads in enumerate(weights[:, :, first_query:])
            for number, head in enumerate(heads)
        ),
        even=compare(even, keys, levels),
    )


def label_tokens(layout: Layout) -> list[str]:
    """Query and response as a3 a2 a1 + b3 b2 b1 = c1 c2 c3 c4.

    A letter for every run of content, in the order of the tokens; the number is that of the symbol
    within the run, in arithmetic counted from the ones digit.
    """
    letters: dict[tuple[int, bool], str] = {}
    labels: list[str] = []
    for index, source in enumerate(layout.sources):
        if not isinstance(source, Symbol):
            labels.append(source)
            continue
        number = len(letters)
        letter = ascii_lowercase[number % 26] * (1 + number // 26)
        run = (source.field, index >= layout.num_query)
        labels.append(f"{letters.setdefault(run, letter)}{source.index + 1}")
    return labels


def _check_weights(config: TrialConfig, length: int, second: int | None, num_examples: int) -> None:
    num_tokens = config.task.num_tokens(length, second)
    each = config.model.num_layers * config.model.num_heads * num_tokens**2
    at_most = MAX_WEIGHTS // each if each <= MAX_WEIGHTS_AT_ONCE else 0
    if num_examples > at_most:
        raise ValueError(
            f"an example of length {length} has {num_tokens} tokens and {each:.1e} attention "
            f"weights: {num_examples} examples are too many, at most {at_most} here"
        )


def _draw_examples(
    config: TrialConfig, layout: Layout, length: int, second: int | None, count: int
) -> tuple[Batch, Int[Tensor, "B T P"], int]:
    """Test examples with this layout, their position IDs, and how many others were drawn."""
    batch = make_test_set(with_examples(config, count), length, second)
    ids = evaluation_ids(batch, config)
    none = (NO_ID,) * config.task.num_levels
    wanted = torch.tensor([none, *layout.relative_ids, none])
    if batch.relative_ids.shape[1:] != wanted.shape:
        raise NothingToAverage(
            f"no example of {task_name(config.task)} at length {length} is that long"
        )
    fits = (batch.relative_ids == wanted).flatten(1).all(dim=1)
    fits &= batch.response_mask.sum(dim=1) == len(layout.sources) - layout.num_query + 1
    return Batch(*(part[fits] for part in batch)), ids[fits], int((~fits).sum())


# Patterns -----------------------------------------------------------------------------------------


def predicted_keys(relative_ids: Int[Tensor, "T P"], first_query: int) -> Bool[Tensor, "P 2 Q T-1"]:
    """The keys of the patterns next and same, for the queries from `first_query` on.

    relative_ids: of one example, BOS first and EOS last; EOS is neither a query nor a key.
    """
    keys = relative_ids[:-1].t()
    visible = visible_keys(first_query, keys.shape[1])
    wanted = torch.stack([relative_ids[first_query + 1 :].t(), keys[:, first_query:]], dim=1)
    same = (keys[:, None, None, :] == wanted.unsqueeze(3)) & (wanted != NO_ID).unsqueeze(3)
    is_bos = torch.arange(keys.shape[1]) == 0
    return (same & visible) | is_bos


def even_weights(keys: Bool[Tensor, "*B Q T"]) -> Float[Tensor, "*B Q T"]:
    """The attention that every query shares evenly among its keys."""
    return keys / keys.sum(dim=-1, keepdim=True)


def visible_keys(first_query: int, num_tokens: int) -> Bool[Tensor, "Q T"]:
    """All that the queries from `first_query` on can look at."""
    indices = torch.arange(num_tokens)
    return indices <= indices[first_query:, None]


def compare(
    weights: Float[Tensor, "Q T"], keys: Bool[Tensor, "P 2 Q T"] | None, levels: Sequence[str]
) -> tuple[Likeness, ...]:
    """The likeness of attention weights to both patterns on every level; () without coupled IDs."""
    if keys is None:
        return ()
    beyond = keys[..., 1:]
    masses = (weights * keys).sum(dim=3).mean(dim=2)
    masses_beyond = (weights[:, 1:] * beyond).sum(dim=3).mean(dim=2)
    most = beyond.any(dim=3).float().mean(dim=2)
    return tuple(
        Likeness(
            pattern=pattern,
            level=name,
            mass=float(masses[level, number]),
            mass_beyond_bos=float(masses_beyond[level, number]),
            most_beyond_bos=float(most[level, number]),
        )
        for level, name in enumerate(levels)
        for number, pattern in enumerate(PATTERNS)
    )
