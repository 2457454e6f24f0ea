"""Hooks hear of everything in order, and nothing that they do reaches a sweep."""

import sys
import threading
import time
from types import ModuleType

import pytest

from pcore.config import flatten
from sweeps.engine.launch import hooks as hooks_file
from sweeps.engine.launch.hooks import Hook, Hooks, Launch, TrialReport
from sweeps.engine.plan import make_plan
from sweeps.engine.spec import Trial
from sweeps.engine.store.store import Store
from sweeps.engine.trial import running as running_file
from sweeps.engine.trial.attempt import Outcome
from sweeps.engine.trial.running import running
from tests.support.sweeps.tiny import make_sweep, run

ROW = {"checkpoint": "last", "range": "test", "length": 5, "num_examples": 10, "num_correct": 7}


class Diary(Hook):
    """Writes down what it hears."""

    def __init__(self):
        self.heard: list[tuple[str, object]] = []
        self.summaries = list[str]()

    def on_launch(self, launch: Launch) -> None:
        self.heard.append(("launch", launch.title))

    def on_start(self, trial: Trial) -> None:
        self.heard.append(("start", trial.id))

    def on_report(self, trial: Trial, report: TrialReport) -> None:
        self.heard.append(("report", (trial.id, report)))

    def on_finish(self, trial: Trial, outcome: Outcome) -> None:
        self.heard.append(("finish", (trial.id, outcome.status)))
        self.summaries.append(outcome.summary)

    def on_end(self, launch: Launch, code: int | None) -> None:
        self.heard.append(("end", code))

    def reports(self) -> list[TrialReport]:
        return [facts[1] for kind, facts in self.heard if kind == "report"]

    def losses(self) -> list[tuple[int, float]]:
        return [(one.step, one.loss) for one in self.reports() if not one.measured]


class Wrong(Hook):
    """Fails at everything."""

    def on_start(self, trial: Trial) -> None:
        raise RuntimeError("planted")

    on_report = on_finish = on_end = on_launch = on_start  # type: ignore[assignment]


@pytest.fixture
def own(monkeypatch):
    """A module of the user's own."""
    module = ModuleType("my_hooks")
    module.Diary, module.Wrong, module.number = Diary, Wrong, 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_hooks", module)


def test_a_hook_that_raises_ends_nothing_and_is_named_once(tmp_path, own, capsys):
    assert run(make_sweep(one={}), tmp_path, "--hook", "my_hooks:Wrong") == 0
    assert [s.status for s in Store(tmp_path).shards()] == ["ok", "ok"]
    assert capsys.readouterr().err.count("hook Wrong: RuntimeError: planted") == 1


def test_a_hook_that_hangs_is_left_behind(tmp_path, capsys):
    class Hanging(Hook):
        patience = 0.2

        def on_launch(self, launch: Launch) -> None:
            threading.Event().wait(20)

    launch, diary = Launch(plans=(), store=Store(tmp_path)), Diary()
    hooks, began = Hooks(launch, [Hanging(), diary]), time.monotonic()
    hooks.close(0)
    assert time.monotonic() - began < 5
    assert diary.heard == [("launch", ""), ("end", 0)]
    assert "hook Hanging took longer than 0 s and was abandoned" in capsys.readouterr().err


def test_a_hook_hears_of_a_trial_while_it_runs_and_of_each_attempt(tmp_path, monkeypatch):
    """Another process trains: one attempt is interrupted, the next one ends."""
    monkeypatch.setattr(hooks_file, "LOOK", 0.02)
    store, sweep, diary = Store(tmp_path), make_sweep(one={}), Diary()
    plan = make_plan(sweep, "smoke", "1", store)
    trial, curve = plan.trials[0].trial, list[dict]()
    told = {"config": flatten(trial.config), "curve": curve, "results": []}
    monkeypatch.setattr(running_file, "BEAT", 0.02)

    def report(step: int, loss: float) -> None:
        facts = {"learning_rate": 0.1, "grad_norm": 1.0, "seconds": 1.0}
        curve.append({"step": step, "loss": loss, **facts})
        deadline = time.monotonic() + 20
        while diary.losses()[-1:] != [(step, loss)]:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    hooks = Hooks(Launch(plans=[plan], store=store), [diary])
    with running(store.folder, trial.id, "", lambda: told):
        report(10, 2.0)
        report(20, 1.5)
    while ("finish", (trial.id, "interrupted")) not in diary.heard:
        time.sleep(0.01)
    with running(store.folder, trial.id, "", lambda: told):
        report(30, 1.0)
    rows = [ROW | {"range": "train", "length": 1}, ROW | {"second_length": 3}]
    store.write(trial.config, "ok", {}, curve, rows)
    hooks.close(0)
    kinds = [kind for kind, _ in diary.heard]
    assert kinds.count("start") == 2 or kinds[-4:-1] == ["start", "report", "finish"]
    assert diary.losses() == [(10, 2.0), (20, 1.5), (30, 1.0)]
    measured = [one for report in diary.reports() for one in report.measured]
    shown = [(one.curve, one.length, one.num_correct) for one in measured]
    assert shown == [("last", 1, 7), ("last_3", 5, 7)]
    assert diary.heard[-2:] == [("finish", (trial.id, "ok")), ("end", 0)]
    assert diary.summaries[-1] == "exact match over all lengths: train 70.0 %"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("diary", "--hook 'diary' is not package.module:Class"),
        (
            "my_hooks:number",
            "--hook 'my_hooks:number' is not a subclass of sweeps.engine.launch.hooks",
        ),
    ],
)
def test_a_hook_that_cannot_work_is_refused_before_anything_runs(
    tmp_path, own, capsys, name, sentence
):
    assert run(make_sweep(one={}), tmp_path / "results", "--hook", name) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_tensorboard_gets_a_folder_of_curves_for_each_trial(tmp_path, monkeypatch):
    pytest.importorskip("tensorboardX")
    monkeypatch.setenv("PCORE_TENSORBOARD", str(tmp_path / "runs"))
    hook = "sweeps.hooks.tensorboard:TensorBoard"
    assert run(make_sweep(one={}), tmp_path / "results", "--hook", hook) == 0
    names = sorted(folder.name.rpartition(" (")[0] for folder in (tmp_path / "runs").iterdir())
    assert names == ["one, seed 0", "one, seed 1"]
    for file in (tmp_path / "runs").rglob("events.*"):
        assert all(name in file.read_bytes() for name in (b"loss", b"exact_match_by_length/last"))


def test_wandb_gets_a_run_for_each_trial_also_of_a_long_label_or_a_deleted_run(
    tmp_path, monkeypatch
):
    class Run:
        def __init__(self, **facts):
            assert len(facts["group"]) <= 128
            if facts["id"] in deleted:
                raise RuntimeError("run was previously created and deleted")
            self.facts, self.logged, self.code = facts, list[dict[str, object]](), None
            runs.append(self)

        def define_metric(self, *_, **__):
            pass

        def log(self, values):
            self.logged.append(values)

        def finish(self, exit_code):
            self.code = exit_code

    runs, sweep = list[Run](), make_sweep(**{"one" * 60: {}})
    first, second = sweep.trials("smoke", "1x2")
    deleted = {second.id}
    module = ModuleType("wandb")
    module.init = Run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", module)
    flags = ["--hook", "sweeps.hooks.wandb:WandB", "--seeds", "1x2"]
    assert run(sweep, tmp_path, *flags) == 0
    shown = {r.facts["name"]: (r.facts["id"], r.code) for r in runs}
    assert shown[first.name[-128:]] == (first.id, 0)
    name, code = shown[second.name[-128:]]
    assert (name[: len(second.id) + 1], code) == (f"{second.id}-", 0)
    for one in runs:
        keys = {key for values in one.logged for key in values}
        assert keys == {"step", "loss", "learning_rate", "grad_norm", "length", "exact_match/last"}
