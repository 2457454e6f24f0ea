"""The commands of `pcore` that take a trained model: solve, attention, explain.

$ pcore solve m.pt 653+49 12+34
653+49 = 0702
12+34 = 036: wrong at digit 2 of 3, as the model writes them (ones digit first)
  truth 046
         ^
1 of 2 right
"""

import argparse
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pcore.cli.models import choose_device, open_model
from pcore.cli.parser import STDIN, Parser, add_device, command_parser, strip_equals
from pcore.cli.text import align
from pcore.config import TrialConfig, check_bounds
from pcore.decoding import Solution
from pcore.decoding import solve as solve_query
from pcore.diagnosis.attention import AttentionMap, Head, Likeness, average_attention
from pcore.diagnosis.causes import KINDS, LEAST, name_causes, percent
from pcore.diagnosis.failures import Diagnosis, analyse_failures, count_verdict_changes
from pcore.encodings import Mixture
from pcore.encodings.position_ids import level_names
from pcore.evaluation import with_examples
from pcore.model import Transformer
from pcore.settings import MAX_LENGTH
from pcore.tasks import Task
from pcore.tasks.addition import Addition
from pcore.tasks.multiplication import Multiplication
from pcore.validation import task_name

NO_PATTERN = "this model has no coupled IDs, so the construction predicts nothing about its heads"
NUMBERS = ("no BOS", "overlap", "at stop")  # of a pattern, after its mass
WINDOW = 60  # characters of a wrong answer's truth that are shown
LEAST_FAILURES = 20  # fewer say nothing about their causes
AS_EVALUATED = "as in evaluation"
ATTENTION_HELP = """\
Two numbers for every head: attention on the keys that Theorem 5.1 of arXiv 2405.20671 predicts.
`python -m analysis attention CHECKPOINT` draws the matrices."""
EXPLAIN_HELP = """\
Failures by kind, and what explains them: position in the response, carry, position ID, operand
lengths; then weights of the levels of IDs, and bf16 against fp32."""


def solve(words: list[str]) -> int:
    """Print answers to queries next to the truth."""
    parser = _model_parser("solve", "A query of - reads queries from standard input.")
    parser.add_argument("queries", metavar="QUERY", nargs="+")
    args = parser.parse_args(words)
    queries: Iterable[str] = args.queries
    if args.queries == [STDIN]:
        queries = filter(None, map(str.strip, sys.stdin))
    model, config = _open(args)
    right: list[bool] = []
    for query in map(strip_equals, queries):
        _check_trained(config, query)
        solution = solve_query(model, config, query)
        print(format_solution(solution, config.task), flush=True)
        right.append(solution.is_correct)
    if len(right) > 1:
        print(f"{sum(right)} of {len(right)} right")
    return 0


def attention(words: list[str]) -> int:
    """Print how closely every head matches the construction."""
    parser = _model_parser("attention", ATTENTION_HELP, "the longest trained length", "1000")
    args = parser.parse_args(words)
    args.examples = 1000 if args.examples is None else args.examples
    model, config = _open(args)
    length = args.length or config.data.max_length
    averaged = average_attention(model, config, length, args.examples)
    print(format_attention(averaged, f"{args.checkpoint.name}, {task_name(config.task)}"))
    return 0


def explain(words: list[str]) -> int:
    """Print why the model fails at a length."""
    parser = _model_parser("explain", EXPLAIN_HELP, "the longest tested length", AS_EVALUATED)
    args = parser.parse_args(words)
    model, config = _open(args)
    length = args.length or max((*config.eval.test_lengths, config.data.max_length))
    diagnosis = analyse_failures(model, config, length)
    print(f"{args.checkpoint.name}: {task_name(config.task)} at length {length}")
    print("\n".join([*format_diagnosis(diagnosis), *describe_levels(model, config), ""]))
    lost, won = count_verdict_changes(model, config, length)
    print(
        f"precision: bf16 autocast changes the verdict of {lost + won} of {diagnosis.num_examples} "
        f"examples at length {length} ({lost} right in fp32 only, {won} in bf16 only)"
    )
    return 0


def format_solution(solution: Solution, task: Task) -> str:
    """The answer as people read it: numbers with the ones digit last. Of a wrong one the first
    wrong symbol in the order in which the model writes, marked under the truth.
    """
    backwards, kind = _is_reversed(task), "digit" if _writes_number(task) else "symbol"
    join = task.separator.join
    answer, truth = (
        join(reversed(symbols) if backwards else symbols)
        for symbols in (solution.response, solution.truth)
    )
    said = f"{solution.query} = {answer}"
    if solution.is_correct:
        return said
    pairs = zip(solution.response, solution.truth, strict=False)
    same = next((i for i, (a, b) in enumerate(pairs) if a != b), len(solution.response))
    if same == len(solution.truth):
        return f"{said}: wrong, all digits are right but it does not stop after the last one"
    order = ", as the model writes them (ones digit first)" if backwards else ""
    stops = ", where it stops too early" if same == len(solution.response) else ""
    ahead = len(task.separator) * same + sum(map(len, solution.truth[:same]))
    mark = len(truth) - 1 - ahead if backwards else ahead
    first = max(0, mark - WINDOW // 2) if len(truth) > WINDOW else 0
    cut = "..." if first else "", "..." if first + WINDOW < len(truth) else ""
    shown = f"{cut[0]}{truth[first : first + WINDOW]}{cut[1]}"
    return (
        f"{said}: wrong at {kind} {same + 1} of {len(solution.truth)}{stops}{order}\n"
        f"  truth {shown}\n        {' ' * (len(cut[0]) + mark - first)}^"
    )


def _writes_number(task: Task) -> bool:
    """Whether a response is one number."""
    return isinstance(task, (Addition, Multiplication)) and not task.scratchpad


def _is_reversed(task: Task) -> bool:
    """Whether it is one whose ones digit comes first."""
    if isinstance(task, Addition):
        return _writes_number(task) and task.reverse_response and not task.index_hints
    return _writes_number(task)


def _check_trained(config: TrialConfig, query: str) -> None:
    """Raise ValueError for a number of operands, say, that the model was neither trained nor tested
    with.
    """
    data, task = config.data, config.task
    asked, trained = (
        set(t.trained_seconds(data.min_length, data.max_length) or ())
        for t in (task.for_query(query), task)
    )
    if other := asked - trained - set(config.eval.second_lengths):
        numbers = ", ".join(map(str, sorted(trained)))
        raise ValueError(
            f"{query!r} has {task.size_names[1]} = {max(other)}, "
            f"the model was trained with {numbers}"
        )


def format_attention(averaged: AttentionMap, title: str) -> str:
    """A row per head and level of IDs, and the baseline of even attention."""
    m = averaged
    left_out = f" ({m.num_left_out} of another layout left out)" if m.num_left_out else ""
    lines = [
        f"{title}: attention at length {m.length}, {m.num_examples} examples{left_out}",
        f"averaged over the {len(m.labels) - m.first_query} queries from '=' on; logits "
        f"times {m.factor:g}, as in evaluation",
        "",
    ]
    rows = [["head", "BOS", "keys", "largest"]]
    if m.even:
        rows[0] += ["level", *("next", *NUMBERS), *("same", *NUMBERS)]
    for head in m.heads:
        shares = [f"{head.bos:.3f}", f"{math.exp(head.entropy):.1f}", f"{head.largest:.3f}"]
        cells = [_name_head(head, m), *shares]
        rows += [cells + likeness for likeness in _by_level(head.likenesses) or [[]]]
    rows += [["even", "", "", "", *likeness] for likeness in _by_level(m.even)]
    lines += [*align(rows, ">"), ""]
    if not m.even:
        return "\n".join([*lines, NO_PATTERN])
    most = {like.pattern: f"{like.most_beyond_bos:.3f}" for like in m.even}
    lines += [
        "next: BOS and the tokens with the ID of the symbol to be written; same: BOS and those",
        "with the ID of the current one (arXiv 2405.20671, Theorem 5.1). no BOS: the mass without",
        f"BOS, at most {most['next']} and {most['same']}. overlap: 1 = even weights on exactly",
        "these keys. at stop: mass of the last query alone. keys: e to the entropy. even: all",
        "visible tokens alike.",
    ]
    return "\n".join(lines)


def format_diagnosis(diagnosis: Diagnosis) -> Iterator[str]:
    """Lines: the kinds of failure, then their causes in words."""
    d = diagnosis
    num_right = d.num_examples - d.num_failed
    yield (
        f"exact match {percent(num_right / d.num_examples)} ({num_right} of {d.num_examples}); "
        f"{d.num_missed_stop} do not stop, {d.num_early_stop} stop too early, "
        f"{d.num_wrong_symbol} write a wrong symbol"
    )
    if d.num_failed_elsewhere is not None:
        share = percent(1 - d.num_failed_elsewhere / d.num_examples)
        yield f"exact match {share} on the same examples at starts drawn as in training"
    causes, failed = name_causes(diagnosis), max(d.num_failed, d.num_failed_elsewhere or 0)
    yield ""
    if not failed:
        yield "nothing failed"
    elif failed < LEAST_FAILURES:
        yield f"why: too few to tell, {failed} of {d.num_examples} failed"
    else:
        yield "why:"
        yield from (f"- {cause.sentence}" for cause in causes)
        if all(cause.name in KINDS for cause in causes):
            yield (
                "- No cause was found: place, carry, position ID and operand lengths each explain "
                f"less than {percent(LEAST)} of the variance."
            )


def describe_levels(model: Transformer, config: TrialConfig) -> Iterator[str]:
    """The learned weights of the levels of IDs, where there are any."""
    if isinstance(model.encoding, Mixture):
        names = level_names(config.task, config.position)
        weights = model.encoding.weights().detach().tolist()
        text = ", ".join(f"{name} {w:.2f}" for name, w in zip(names, weights, strict=True))
        yield f"\nweights of the levels of IDs: {text}"


def _by_level(likenesses: Sequence[Likeness]) -> list[list[str]]:
    """Per level: its name and the numbers of both patterns."""
    rows: dict[str, list[str]] = {}
    for like in likenesses:
        numbers = (like.mass, like.mass_beyond_bos, like.overlap, like.mass_at_stop)
        rows.setdefault(like.level, [like.level]).extend(f"{n:.3f}" for n in numbers)
    return list(rows.values())


def _name_head(head: Head, averaged: AttentionMap) -> str:
    """ "2" in a model of one layer, "1.2" for the second head of the first of several."""
    layer = f"{head.layer + 1}." if len(averaged.weights) > 1 else ""
    return f"{layer}{head.head + 1}"


def _model_parser(name: str, text: str, length: str = "", examples: str = "") -> Parser:
    """length, examples: what the options of that name default to; "" = there are none."""
    parser = command_parser(name, text)
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=Path)
    add_device(parser)
    parser.add_argument(
        "--trust-code", action="store_true", help="import and run user code that it names"
    )
    if length:
        parser.add_argument("--length", type=int, help=f"default: {length}")
        parser.add_argument("--examples", type=int, help=f"test examples (default: {examples})")
    return parser


def _open(args: argparse.Namespace) -> tuple[Transformer, TrialConfig]:
    """The model that the arguments name, with as many test examples as they say."""
    length, examples = getattr(args, "length", None), getattr(args, "examples", None)
    for flag, value in {"length": length, "examples": examples}.items():
        if value is not None and value < 1:
            raise ValueError(f"--{flag} {value} is below 1")
    if length is not None and length > MAX_LENGTH:
        raise ValueError(f"--length {length} is above {MAX_LENGTH}")
    device = choose_device(args.device)
    model, config = open_model(args.checkpoint, device, trust_code=args.trust_code)
    config = with_examples(config, examples)
    check_bounds(config)
    return model, config
