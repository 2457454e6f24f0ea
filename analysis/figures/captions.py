"""What a figure says about itself: the task, sweep and scale of its rows, and what its marks are.

A picture is copied without the page around it, so this stands in the picture.
"""

from collections.abc import Iterable

from matplotlib.figure import Figure

from analysis.figures import style
from analysis.load import Results, cell_configs, trained_ranges
from analysis.statistics.runs import has_second_lengths, share_second_lengths
from analysis.statistics.training import token_factor
from pcore.tasks import TASKS

MOST_TASKS = 3  # that are named
SMOKE = "smoke scale: nothing is learned"
FAR = 8  # times the longest trained length, from which on factors are said
WHOLE_FROM = 10  # the factor from which on it is said without decimals


def add_small_print(
    figure: Figure, results: Results, notes: Iterable[str], has_policy: bool = True
) -> None:
    """Small print that begins with where the rows are from and ends with whose weights were
    evaluated, if any; a mark across it at smoke scale."""
    tasks, policy = _tasks(results), f"checkpoint: {results.checkpoint}" if has_policy else ""
    named = ", ".join(tasks) if len(tasks) <= MOST_TASKS else f"{len(tasks)} tasks"
    source = [named] if tasks else []
    source += [f"sweep {results.sweep}", f"{results.scale} scale"]
    style.add_caption(figure, "; ".join(filter(None, (", ".join(source), *notes, policy))))
    if results.scale == "smoke":
        style.add_watermark(figure, SMOKE)


def length_label(results: Results) -> str:
    """What the length of a problem counts."""
    unit = size_names(results)[0]
    return "length" if unit == "length" else f"length ({unit})"


def size_names(results: Results) -> tuple[str, str]:
    """What length and second length count, each where all tasks of the sweep count the same."""
    sizes = [TASKS[task].size_names if task in TASKS else () for task in _tasks(results)]
    first = {names[0] if names else "length" for names in sizes}
    second = {names[1] if len(names) > 1 else "second length" for names in sizes}
    return (
        first.pop() if len(first) == 1 else "length",
        second.pop() if len(second) == 1 else "second length",
    )


def describe_counts(counts: Iterable[int]) -> str:
    """How many runs each cell has: "n = 3 runs per cell", "n = 2–3 runs per cell"."""
    numbers = sorted({int(n) for n in counts if n > 0})
    if not numbers:
        return "no runs"
    if numbers == [1]:
        return "one run per cell"
    span = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]}–{numbers[-1]}"
    return f"n\u00a0=\u00a0{span}\u00a0runs per\u00a0cell"


def explain_band(kinds: Iterable[str]) -> str:
    """What the band around a line is, by kind of interval."""
    bands = {
        "range": "worst to best run",
        "order statistics": "interval of the median",
        "crossed order statistics": "interval of the median over model and data seeds",
    }
    found = [text for kind, text in bands.items() if kind in set(kinds)]
    return f"line: median over runs, band: {' or '.join(found)}" if found else "line: the run"


def describe_seconds(results: Results) -> str:
    """How second lengths count; "" where there is at most one with a length."""
    if not has_second_lengths(results.evaluation):
        return ""
    first, second = size_names(results)
    tested = "" if share_second_lengths(results.evaluation) else ", not the same for all cells"
    return f"by {first}: the worst {second}{tested}"


def describe_factor(results: Results) -> str:
    """The largest tested length over the longest trained one, and in tokens of the longest training
    row; "" where it is not far beyond, or cells were trained on different lengths.
    """
    longest = results.evaluation.groupby("cell")["length"].max()
    trained = {high for _, high in trained_ranges(results).values()}
    if len(trained) != 1 or longest.max() < FAR * (high := trained.pop()):
        return ""
    configs, length = cell_configs(results), int(longest.max())
    cells = [cell for cell in longest.index[longest == length] if cell in configs]
    factors = [token_factor(configs[cell], length) for cell in cells]
    tokens = list(map(factor_text, sorted(factor for factor in factors if factor is not None)))
    span = "–".join(dict.fromkeys(tokens[:1] + tokens[-1:]))
    in_tokens = f", {span} in tokens of the longest training row"
    text = f"{length:,} is {factor_text(length / high)} the longest trained length"
    return f"{text}{in_tokens if tokens else ''}"


def factor_text(factor: float) -> str:
    """A factor: 83.3 as "83×", 2.405 as "2.4×"."""
    text = f"{factor:,.0f}" if factor >= WHOLE_FROM else f"{factor:.1f}".removesuffix(".0")
    return f"{text}×"


def _tasks(results: Results) -> list[str]:
    """The tasks of a sweep, in its order; own ones by the name of their class."""
    names = results.trials["task.name"].dropna().unique()
    return [str(name).rpartition(":")[2] for name in names]
