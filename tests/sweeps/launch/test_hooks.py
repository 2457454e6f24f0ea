"""Hooks hear of everything in order, and nothing that they do reaches a sweep."""

import sys
import threading
import time
from types import ModuleType

import pytest

from sweeps.engine.launch.hooks import Hook, Hooks, Launch, TrialReport
from sweeps.engine.launch.launch import run_sweeps
from sweeps.engine.options import LaunchOptions
from sweeps.engine.spec import Trial
from sweeps.engine.store.store import Store
from sweeps.engine.trial.attempt import Outcome
from tests.support.sweeps.tiny import make_sweep, run


class Diary(Hook):
    """Writes down what it hears."""

    def __init__(self):
        self.heard: list[tuple[str, object]] = []

    def on_launch(self, launch: Launch) -> None:
        self.heard.append(("launch", launch.title))

    def on_start(self, trial: Trial) -> None:
        self.heard.append(("start", trial.id))

    def on_report(self, trial: Trial, report: TrialReport) -> None:
        self.heard.append(("report", (trial.id, report)))

    def on_finish(self, trial: Trial, outcome: Outcome) -> None:
        self.heard.append(("finish", (trial.id, outcome.status)))

    def on_end(self, launch: Launch, code: int | None) -> None:
        self.heard.append(("end", code))


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


def options(results) -> LaunchOptions:
    return LaunchOptions(
        results=str(results), scale="smoke", executor="inline", mlflow=False, report=False
    )


def test_a_hook_hears_of_every_trial_from_its_start_to_its_end(tmp_path):
    diary = Diary()
    assert run_sweeps([make_sweep(one={})], options(tmp_path), [diary]) == 0
    kinds = [kind for kind, _ in diary.heard]
    assert (kinds[0], kinds[-1]) == ("launch", "end")
    assert diary.heard[0][1] == "tiny [smoke]"
    assert diary.heard[-1][1] == 0
    for name in {trial for kind, trial in diary.heard if kind == "start"}:
        mine = [(k, f) for k, f in diary.heard if f == name or (k in FACTS and f[0] == name)]
        assert [kind for kind, _ in mine][:: len(mine) - 1] == ["start", "finish"]
        assert mine[-1][1][1] == "ok"
        reports = [facts[1] for kind, facts in mine if kind == "report"]
        rows = Store(tmp_path).load([name]).to_pylist()
        losses = [(r.step, r.loss) for r in reports if not r.measured]
        assert losses == [(r["step"], r["loss"]) for r in rows if r["record"] == "report"]
        measured = [(m.checkpoint, m.length, m.num_correct) for r in reports for m in r.measured]
        assert measured == [
            (r["checkpoint"], r["length"], r["num_correct"])
            for r in rows
            if r["record"] == "evaluation"
        ]


FACTS = ("report", "finish")


def test_a_hook_that_raises_ends_nothing_and_is_named_once(tmp_path, own, capsys):
    assert run(make_sweep(one={}), tmp_path, "--hook", "my_hooks:Wrong") == 0
    assert [s.status for s in Store(tmp_path).shards()] == ["ok", "ok"]
    assert capsys.readouterr().err.count("hook Wrong: RuntimeError: planted") == 1


def test_a_hook_that_hangs_is_left_behind(capsys):
    class Hanging(Hook):
        patience = 0.2

        def on_launch(self, launch: Launch) -> None:
            threading.Event().wait(20)

    hooks, diary = Hooks([Hanging(), diary := Diary()]), diary
    hooks.tell(lambda hook: hook.on_launch(Launch(plans=(), store=Store("nowhere"))))
    began = time.monotonic()
    hooks.close()
    assert time.monotonic() - began < 5
    assert diary.heard == [("launch", "")]
    assert "hook Hanging took longer than 0 s and was abandoned" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("diary", "--hook 'diary' is not package.module:Class"),
        ("no_such:Hook", "cannot import 'no_such': ModuleNotFoundError"),
        ("my_hooks:Dairy", "module 'my_hooks' has no 'Dairy'. Did you mean 'Diary'?"),
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


def test_wandb_gets_a_run_for_each_trial(tmp_path, monkeypatch):
    class Run:
        def __init__(self, **facts):
            self.facts, self.logged, self.code = facts, list[dict[str, object]](), None
            runs.append(self)

        def define_metric(self, *_, **__):
            pass

        def log(self, values):
            self.logged.append(values)

        def finish(self, exit_code):
            self.code = exit_code

    runs: list[Run] = []
    module = ModuleType("wandb")
    module.init = Run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", module)
    flags = ["--hook", "sweeps.hooks.wandb:WandB", "--seeds", "1x2"]
    assert run(make_sweep(one={}), tmp_path, *flags) == 0
    assert [(r.facts["name"], r.facts["group"], r.code) for r in runs] == [
        ("one, seed 0", "one", 0),
        ("one, seed 0, data seed 1", "one", 0),
    ]
    for one in runs:
        keys = {key for values in one.logged for key in values}
        assert keys == {"step", "loss", "learning_rate", "grad_norm", "length", "exact_match/last"}


def test_notify_runs_a_command_at_the_end(tmp_path, capsys):
    note = tmp_path / "note"
    command = f'echo "$PCORE_SWEEPS|$PCORE_EXIT_CODE|$PCORE_SUMMARY" > {note}'
    assert run(make_sweep(one={}), tmp_path / "results", "--notify", command) == 0
    summary = "tiny [smoke]: finished; 2 of 2 trials of this launch are ok"
    assert note.read_text() == f"tiny [smoke]|0|{summary}\n"
    assert run(make_sweep(one={}), tmp_path / "results", "--notify", "exit 3") == 0
    assert "hook Notify: CalledProcessError" in capsys.readouterr().err
