"""What a figure says about itself: the task, sweep and scale of its rows, and the unit of length.

A picture is copied without the page around it, so this stands in the picture.
"""

from matplotlib.figure import Figure

from analysis.figures import style
from analysis.load import Results
from pcore.tasks import TASKS

MOST_TASKS = 3  # that are named
SMOKE = "smoke scale: nothing is learned"


def add_small_print(figure: Figure, results: Results, text: str) -> None:
    """Small print that begins with where the rows are from; a mark across it at smoke scale."""
    style.add_caption(figure, f"{describe_source(results)}; {text}")
    if results.scale == "smoke":
        style.add_watermark(figure, SMOKE)


def describe_source(results: Results) -> str:
    """Task, sweep and scale: "addition, sweep heads_ablation, laptop scale"."""
    tasks = _tasks(results)
    named = ", ".join(tasks) if len(tasks) <= MOST_TASKS else f"{len(tasks)} tasks"
    parts = [named] if tasks else []
    return ", ".join([*parts, f"sweep {results.sweep}", f"{results.scale} scale"])


def length_label(results: Results) -> str:
    """What the length of a problem counts, where all tasks of the sweep count the same."""
    names = {TASKS[task].size_names[0] if task in TASKS else "length" for task in _tasks(results)}
    unit = names.pop() if len(names) == 1 else "length"
    return "length" if unit == "length" else f"length ({unit})"


def size_names(results: Results) -> tuple[str, str]:
    """What length and second length mean in the task of the sweep."""
    tasks = _tasks(results)
    names = TASKS[tasks[0]].size_names if len(tasks) == 1 and tasks[0] in TASKS else ()
    return (names[0], names[1]) if len(names) > 1 else ("length", "second length")


def _tasks(results: Results) -> list[str]:
    """The tasks of a sweep, in its order."""
    return [str(task) for task in results.trials["task.name"].dropna().unique()]
