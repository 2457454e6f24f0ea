"""How long the rest of a search will take, for `--plan`: what is stored is free."""

from collections.abc import Mapping, Sequence

from pcore.cli.text import format_seconds, plural
from pcore.config import TrialConfig, override, trial_id
from sweeps.engine.options import LaunchOptions
from sweeps.engine.prices.price import price_cells
from sweeps.engine.search.results import Scored, read_scores
from sweeps.engine.search.space import HALVING, Budget, Search
from sweeps.engine.search.study import Arm
from sweeps.engine.spec import Cell
from sweeps.engine.store.store import Store


def predict(
    search: Search,
    configs: Mapping[str, TrialConfig],
    budget: Budget,
    width: int,
    options: LaunchOptions,
) -> str:
    """What is left of a search and how long it will take, in words. configs: its prepared arms.

    How many configurations go on is not known before: as many as successive halving aims at, and
    all of them. A configuration costs what its arm costs as it is.
    """
    store = Store(options.results)
    arms = [Arm(label, config, search.space, budget) for label, config in configs.items()]
    scores = replay(arms, store, width)
    seconds_of, note = _seconds(arms, store, options)
    num_slots = min(options.num_slots, len(arms) * width)  # a round has no more trainings

    def wall(share: float) -> str:
        seconds = sum(
            count * seconds_of[arm.label, steps]
            for arm in arms
            for steps, count in zip(arm.steps, count_left(arm, scores, share), strict=True)
        )
        return format_seconds(options.start_seconds + seconds / num_slots)

    stored = sum(scored.finished for scored in scores.values())
    if not sum(sum(count_left(arm, scores, 1.0)) for arm in arms):
        return f"all trainings are stored ({stored}): nothing is left to run"
    text = f"predicted: about {wall(1 / HALVING)} on {plural(num_slots, 'slot')}"
    if len(budget.rungs) > 1:
        text += f" if a third of each rung goes on, at most {wall(1.0)}"
    text += f"; {plural(stored, 'training')} stored already" if stored else ""
    return f"{text}\n{note}" if note else text


def _seconds(
    arms: Sequence[Arm], store: Store, options: LaunchOptions
) -> tuple[dict[tuple[str, int], float], str]:
    """What a training of each arm with the steps of each rung takes, and how well such predictions
    hold.
    """
    cells = {
        (arm.label, steps): Cell(
            label=arm.label, config=override(arm.config, {"optim.num_steps": steps})
        )
        for arm in arms
        for steps in arm.steps
    }
    configs = {cell.id: cell.config for cell in cells.values()}
    prices = price_cells(configs, store, options.device, options.num_threads, options.is_local)
    return {key: prices.by_cell[cell.id].seconds for key, cell in cells.items()}, prices.note


def replay(arms: Sequence[Arm], store: Store, width: int) -> dict[str, Scored]:
    """Let every arm take the decisions that the stored trials allow; the scores of these."""
    known: dict[str, Scored] = {}
    while arms := [arm for arm in arms if arm.start(width)]:
        known |= read_scores(store, [name for arm in arms for name in _waited_for(arm)])
        finished = {name for name, scored in known.items() if scored.finished}
        arms = [arm for arm in arms if finished.issuperset(_waited_for(arm))]
        for arm in arms:
            arm.settle(known)
    return known


def _waited_for(arm: Arm) -> list[str]:
    """The id of the next training of each configuration under way."""
    return [trial_id(arm.job(live)) for live in arm.live]


def count_left(arm: Arm, scores: Mapping[str, Scored], share: float) -> list[float]:
    """How many trainings each rung of an arm still needs if this share of a rung goes on."""
    waiting = [0] * (arm.budget.configurations - len(arm.values))
    left = [0.0] * len(arm.steps)
    for first in [*waiting, *(live.rung for live in arm.live)]:
        for rung in range(first, len(left)):
            left[rung] += share ** (rung - first)
    for live, name in zip(arm.live, _waited_for(arm), strict=True):
        if name in scores and scores[name].finished:
            left[live.rung] -= 1  # the launch ended within the round
    return left
