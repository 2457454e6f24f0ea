"""docs/models.md and docs/theory.md: one trained model, and what the theorems' models print."""

from functools import lru_cache

import torch

from analysis.tables.sweep_tables import percent
from pcore.theory.ceilings import Ceiling, count_ceiling
from pcore.theory.exactness import CONSTRUCTIONS, check_hard, check_random, exact_lengths
from pcore.theory.formal import FormalTransformer
from tests.pcore.theory.test_ceilings import PUBLISHED
from tests.project.derived.rows import load

BITS = {"addition": range(2, 11), "multiplication": range(2, 10), "scratchpad": range(3, 8)}
DTYPES = ("float64", "float32", "float16", "bfloat16")


WIDTHS = {"addition": (17, 2), "multiplication": (34, 6), "scratchpad": (19, 4)}


@lru_cache
def built(name: str, num_bits: int) -> FormalTransformer:
    return CONSTRUCTIONS[name].make(num_bits)


def first_probe() -> list[str]:
    results = load("attention_probe")
    rows = results.mechanism
    rows = rows[(rows["kind"] == "head") & (rows["length"] == 5)]
    rows = rows[rows["trial_id"] == results.trials["trial_id"].iloc[0]].set_index(
        ["head", "pattern"]
    )
    after, same = rows.loc[(0, "next")], rows.loc[(1, "same")]
    evaluation = results.evaluation
    at_6 = evaluation[(evaluation["length"] == 6) & (evaluation["cell"] == "num_heads=2")].iloc[0]
    first = results.trials.iloc[0]
    settings = first[["model.num_layers", "model.num_heads", "data.max_length"]]
    assert list(settings) == [1, 2, 5]
    failed = at_6["num_examples"] - at_6["num_correct"]
    return [
        f"EOS is missing after the last one ({percent(at_6['num_missed_stop'] / failed)} % of "
        f"{failed} failures).",
        f"instead of {percent(failed / at_6['num_examples'])} %), so position IDs matter",
        "The first trial of `sweeps/attention_probe.py` at laptop scale (one layer, two heads, "
        "trained on 1-5 digits): one head looks at the digits to be added next "
        f"({percent(after['mass_beyond_bos'])} % of its attention, of at most "
        f"{percent(after['most_beyond_bos'])} %; even attention would have "
        f"{percent(after['even_beyond_bos'])} %), the other one at those of the current position "
        f"ID ({percent(same['mass_beyond_bos'])} %, and {percent(same['bos'])} % on BOS; even: "
        f"{percent(same['even_beyond_bos'])} %), as in the paper's construction.",
        f"exact match {percent(at_6['exact_match'])} % "
        f"({at_6['num_correct']} of {at_6['num_examples']}); {at_6['num_missed_stop']} do not "
        f"stop, {at_6['num_early_stop']} stop too early, {at_6['num_wrong_symbol']} write a wrong "
        "symbol",
    ]


def a_thousand_digits_by_hand() -> list[str]:
    construction = CONSTRUCTIONS["addition"]
    bits = construction.least_bits(1000)
    model, bound = built("addition", bits), construction.max_digits(bits)
    hard = check_hard(model, construction, 1000)
    assert hard.exact
    assert bound == 2**bits - 2
    assert check_random(model, construction.task, 1000, 2).exact
    return [
        "one layer with two heads adds any two numbers of up to 2^P - 2 digits.",
        f"{construction.claim}; hand-written weights, no training P = {bits}, d = "
        f"{model.embedding.shape[1]}, {model.num_parameters:,} parameters, built for up to "
        f"{bound:,} digits; float32 on cpu {hard.num_right} of {hard.num_examples} hardest cases "
        "of 1,000 digits: all right 100 of 100 random examples of 1,000 digits: all right",
    ]


def theory_limits() -> list[str]:
    """bfloat16 fails in multiplication; everything else holds up to the bound, which is computed
    here for the smallest P.
    """
    passages = []
    for name, every in BITS.items():
        construction, lines = CONSTRUCTIONS[name], []
        for bits in every:
            model, bound = built(name, bits), construction.max_digits(bits)
            fails = name == "multiplication"
            reached = [0 if fails and dtype == "bfloat16" else bound for dtype in DTYPES]
            if bits == every[0]:
                assert reached == [exact_up_to(name, bits, dtype) for dtype in DTYPES]
            lines.append(
                f"{bits} {model.embedding.shape[1]} {model.num_parameters:,} {bound} "
                + " ".join(map(str, reached))
            )
        most = "" if every[-1] == 10 else f" --max-bits {every[-1]}"
        command = f"$ pcore construct {name} --limits{most} P d parameters bound"
        passages.append(" ".join([command, *DTYPES, *lines]))
    return passages


def sizes() -> list[str]:
    """The lines of the first table, asserted for every P of the others."""
    shown = dict[str, str]()
    for name, (fixed, per_bit) in WIDTHS.items():
        for bits in BITS[name]:
            assert built(name, bits).embedding.shape[1] == fixed + per_bit * bits
        shown[name] = f"{fixed} + {per_bit}P"
    bound = {name: CONSTRUCTIONS[name].max_digits for name in CONSTRUCTIONS}
    assert all(bound["addition"](bits) == 2**bits - 2 for bits in BITS["addition"])
    assert all(bound["multiplication"](bits) == 2**bits - 3 for bits in BITS["multiplication"])
    return [
        f"| addition | 1 layer, 2 heads | {shown['addition']} | 2^P - 2 digits | Theorem 5.1 of "
        "arXiv 2405.20671 |",
        f"| multiplication N x 2 | 2 layers, 3 + 7 heads | {shown['multiplication']} | N = 2^P - 3 "
        "| the same paper |",
        f"| addition of m operands, scratchpad | 1 layer, 4 heads | {shown['scratchpad']} | sums "
        "of 2^P - 2 digits, m = 2^P - 2 | ours;",
    ]


def exact_up_to(name: str, num_bits: int, dtype: str) -> int:
    scores = exact_lengths(CONSTRUCTIONS[name], num_bits, getattr(torch, dtype), 10)
    return max((length for length, score in scores if score.exact), default=0)


def ceilings() -> list[str]:
    """Five digits take seconds: a slow test counts them."""
    lines = ["$ pcore ceiling digits max. right of all pairs"]
    for digits in PUBLISHED:
        pairs = (9 * 10 ** (digits - 1)) ** 2
        bound = count_ceiling(digits) if digits < 5 else Ceiling(PUBLISHED[digits], pairs)
        shown = f"{bound.num_right:,} of {bound.num_pairs:,}"
        lines.append(f"{digits} {100 * bound.share:.3f} % {shown}")
    return [" ".join(lines)]


MODELS = (first_probe, a_thousand_digits_by_hand)
THEORY = (sizes, theory_limits, ceilings)
