"""A metric of somebody's own becomes a column of the stored rows."""

import importlib
import sys

import pytest

import analysis.__main__ as analysis
from analysis.load import load_sweep
from analysis.rows import read_rows
from sweeps.__main__ import main
from sweeps.engine.store.beside import METRICS
from sweeps.engine.store.store import Store
from tests.support.sweeps.tiny import make_sweep, run

MODULE = """
def is_right(example):
    return example.right
def ends(example):
    return len(example.predicted) if example.predicted else None
"""


def is_right(example):
    return example.right


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    results = tmp_path_factory.mktemp("results")
    assert run(make_sweep(), results, "--seeds", "1") == 0
    return results


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module beside the person, which they may edit."""
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "own_metrics.py"

    def edit(text: str) -> None:
        sys.modules.pop("own_metrics", None)
        file.write_text(text)
        importlib.invalidate_caches()

    edit(MODULE)
    yield edit
    sys.modules.pop("own_metrics", None)


def measure(results, metric="own_metrics:is_right", *flags: str) -> int:
    words = ["measure", metric, "--results", str(results), "--examples", "20", *flags]
    return main(words)


def test_a_metric_is_a_column_of_frames_and_tables(trained, own, capsys):
    assert measure(trained) == 0
    assert "2 trained models: 2 measured now, 0 before" in capsys.readouterr().out
    assert measure(trained, "own_metrics:ends") == 0
    rows = read_rows(trained, "tiny", "smoke")
    assert rows["own_metrics:is_right"].between(0, 1).all()
    assert (rows.loc[rows["exact_match"] == 0, "own_metrics:is_right"] < 0.2).all()
    assert {"own_metrics:ends", "exact_match"} <= set(rows.columns)
    words = ["table", "tiny", "--scale", "smoke", "--results", str(trained), "--metric"]
    assert analysis.main([*words, "is_right"]) == 0
    assert "own_metrics:is_right: A tiny sweep" in capsys.readouterr().out
    assert (trained / "reports/tiny-smoke/metric-own_metrics-is_right.tex").is_file()
    assert analysis.main([*words, "is_rihgt"]) == 2
    assert "did you mean 'own_metrics:is_right'?" in capsys.readouterr().err


def test_nothing_is_measured_twice_unless_its_file_changed(trained, own, capsys):
    assert measure(trained) == 0
    capsys.readouterr()
    assert measure(trained) == 0
    assert "0 measured now, 2 before" in capsys.readouterr().out
    own(MODULE.replace("example.right", "not example.right"))
    assert measure(trained) == 0
    assert "2 measured now, 0 before" in capsys.readouterr().out
    frame = load_sweep(trained, "tiny", "smoke").evaluation
    assert (frame.loc[frame["exact_match"] == 0, "own_metrics:is_right"] > 0.8).all()


def test_files_of_metrics_are_verified_and_merged(trained, own, tmp_path, capsys):
    assert measure(trained) == 0
    assert main(["merge", str(trained), str(tmp_path / "into")]) == 0
    assert "metric files: " in capsys.readouterr().out
    store = Store(tmp_path / "into")
    (first, *_) = (files for files in METRICS.names(store.folder).values())
    (tmp_path / "into" / first[0]).write_bytes(b"PAR1 but no more")
    assert main(["verify", "--results", str(tmp_path / "into")]) == 1
    assert f"{first[0]}: not a readable Parquet file" in capsys.readouterr().out
    assert len(load_sweep(store, "tiny", "smoke").evaluation)


def test_a_metric_that_fails_is_refused_before_any_work(trained, own, capsys):
    own("def broken(example):\n    return int(example.predicted)\n")
    before = METRICS.names(Store(trained).folder)
    assert measure(trained, "own_metrics:broken") == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "metric own_metrics:broken: ValueError: invalid literal for int()" in err
    assert "(own_metrics.py, line 2, in broken)" in err
    assert METRICS.names(Store(trained).folder) == before
