"""The study of one arm: TPE proposes, asynchronous successive halving stops. The only file that
imports optuna.

The store decides. A launch replays every study from the start in memory: the same questions in the
same order, the sampler seeded by the number of the question, the scores from the store. A
killed search therefore resumes with the configurations it had started, and ends as it would have
without the interruption. A larger budget continues it: decisions about a configuration do not
depend on later ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import optuna
from optuna.trial import TrialState

from pcore.config import TrialConfig, derive_seed, override, trial_id
from pcore.validation import validate
from sweeps.engine.search.results import Scored
from sweeps.engine.search.space import (
    HALVING,
    Budget,
    Choice,
    Space,
    defaults_in_space,
    find_bounds,
    rung_steps,
)
from sweeps.engine.trial.failures import last_line

WIDTH = 2  # configurations under way at once; another number asks in another order
STARTUP = 5  # configurations of an arm, its own among them, before TPE takes over from chance
DRAWS = 100  # of values that were asked before, until the space counts as exhausted
DIGITS = 4  # of a drawn number: short in tables, and the same trial on every machine


@dataclass(slots=True)
class Live:
    """A configuration on its way up the rungs."""

    trial: optuna.Trial
    values: dict[str, Any]
    rung: int = 0


class Arm:
    """The study of one arm, replayed in memory.

    The first configuration is the arm as it is, if the space contains it: the winner is never worse
    on the near range than what was there before.
    """

    def __init__(self, label: str, config: TrialConfig, space: Space, budget: Budget):
        self.label, self.config, self.space = label, config, space
        self.num_wanted = budget.configurations
        self.steps = rung_steps(config, budget.rungs)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=HALVING)
        self.study = optuna.create_study(pruner=pruner)
        self.live: list[Live] = []
        self.values: dict[int, dict[str, Any]] = {}  # of every configuration, by its trial's number
        self.scored: dict[int, Scored] = {}  # the last score of each configuration
        self.reached: dict[int, int] = {}  # the steps of the training that gave it
        self.trained: dict[str, int] = {}  # steps by trial id, 0 if it failed
        self.failed: list[str] = []

    def start(self) -> bool:
        """Draw new configurations until WIDTH are under way or the budget is used; whether any is
        under way. Those that cannot work have failed: the ends of a range say little of its middle.
        """
        while len(self.live) < WIDTH and (trial := self._ask()) is not None:
            values = self.values[trial.number]
            try:
                for rung in range(len(self.steps)):
                    validate(self.job(values, rung))
            except ValueError as error:
                self._fail(trial.number, _text(values), str(error))
                self.study.tell(trial, state=TrialState.FAIL)
            else:
                self.live.append(Live(trial, values))
        return bool(self.live)

    def _ask(self) -> optuna.Trial | None:
        """A configuration that was not asked before; None if the budget is used or the space seems
        to hold none.
        """
        for draw in range(DRAWS if len(self.values) < self.num_wanted else 0):
            number = len(self.study.get_trials(deepcopy=False))
            seed = derive_seed("search", number) % 2**32
            self.study.sampler = optuna.samplers.TPESampler(
                seed=seed, n_startup_trials=STARTUP, constant_liar=True
            )
            if draw:  # TPE would insist
                self.study.sampler = optuna.samplers.RandomSampler(seed)
            if number == 0 and (own := defaults_in_space(self.config, self.space)) is not None:
                self.study.enqueue_trial(own)
            trial = self.study.ask()
            values = self._draw(trial)
            if values not in self.values.values():
                self.values[number] = values
                return trial
            self.study.tell(trial, state=TrialState.FAIL)
        self.num_wanted = len(self.values)
        return None

    def _draw(self, trial: optuna.Trial) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for field, within in self.space.items():
            if isinstance(within, Choice):
                values[field] = trial.suggest_categorical(field, within.values)
                continue
            low, high = find_bounds(self.config, field, within)
            if isinstance(low, int) and isinstance(high, int):
                values[field] = trial.suggest_int(field, low, high, log=within.log)
            else:
                drawn = trial.suggest_float(field, low, high, log=within.log)
                values[field] = min(max(float(f"{drawn:.{DIGITS}g}"), low), high)
        return values

    def jobs(self) -> dict[str, TrialConfig]:
        """The trials that are the next rungs of the configurations under way, by what they try."""
        jobs: dict[str, TrialConfig] = {}
        for live in self.live:
            label = f"{self.label}, {_text(live.values)}, {self.steps[live.rung]} steps"
            jobs[label] = self.job(live.values, live.rung)
        return jobs

    def job(self, values: Mapping[str, Any], rung: int) -> TrialConfig:
        """The trial that is this rung of a configuration."""
        return override(self.config, {**values, "optim.num_steps": self.steps[rung]})

    def settle(self, scores: Mapping[str, Scored]) -> None:
        """Promote, stop or finish every configuration under way, in the order they were asked."""
        still: list[Live] = []
        for live in self.live:
            name = trial_id(self.job(live.values, live.rung))
            scored = scores.get(name, Scored(status="not run"))
            state = self._judge(live, name, scored)
            if state is None:
                live.rung += 1
                still.append(live)
            else:
                value = scored.score if state == TrialState.COMPLETE else None
                self.study.tell(live.trial, value, state=state)
        self.live = still

    def _judge(self, live: Live, name: str, scored: Scored) -> TrialState | None:
        """The final state of a configuration after this rung, None if it goes on."""
        number = live.trial.number
        self.trained[name] = self.steps[live.rung] if scored.finished else 0
        if not scored.finished:
            self._fail(number, name, last_line(scored.error) or scored.status)
            return TrialState.FAIL
        self.scored[number], self.reached[number] = scored, self.steps[live.rung]
        live.trial.report(scored.score, HALVING**live.rung)
        if scored.status == "diverged":
            return TrialState.PRUNED
        if live.rung == len(self.steps) - 1:
            return TrialState.COMPLETE
        return TrialState.PRUNED if live.trial.should_prune() else None

    def _fail(self, number: int, what: str, reason: str) -> None:
        place = list(self.values).index(number)
        self.failed.append(f"{self.label}, configuration {place} ({what}): {reason}")

    def best(self) -> dict[str, Any] | None:
        """The winner: its fields, its score and what the arm has spent; None if none finished."""
        trials = self.study.get_trials(deepcopy=False)
        done = [t.number for t in trials if t.state == TrialState.COMPLETE]
        if not done:
            return None
        number = min(done, key=lambda n: (self.scored[n].score, self.scored[n].loss, n))
        rungs = range(len(self.steps))
        return {
            **self.values[number],
            "near_score": self.scored[number].score,
            "num_configurations": len(self.values),
            "num_failed": len(self.failed),
            "num_per_rung": [sum(len(t.intermediate_values) > k for t in trials) for k in rungs],
            "num_trained_steps": sum(self.trained.values()),
            "tried": [
                {**self.values[n], "near_score": scored.score, "num_steps": self.reached[n]}
                for n, scored in sorted(self.scored.items())
            ],
            "trials": list(self.trained),
        }


def _text(values: Mapping[str, Any]) -> str:
    """A configuration as labels have it: "learning_rate=0.001, num_layers=2"."""
    return ", ".join(f"{field.rpartition('.')[2]}={value}" for field, value in values.items())
