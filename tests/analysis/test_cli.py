"""`python -m analysis` from the outside: what it prints, what it writes, how it fails."""

from pathlib import Path

import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.load import usual_scale
from analysis.rows import read_curves, read_rows
from pcore.config import trial_id
from sweeps.engine.store.store import Store
from tests.support.rows.example_store import (
    CELLS,
    NEAR,
    PROVENANCE,
    TEST,
    TRAIN,
    build_store,
    make_config,
    make_evaluation,
    view_rows,
    write_trial,
)

NUM_LENGTHS = len((*TRAIN, *NEAR, *TEST))
FILES = {f"{name}.{kind}" for name in ("table", "comparisons") for kind in ("md", "tex", "csv")}
FILES |= {"runs.csv"}
FILES |= {f"{name}.{kind}" for name in ("lengths", "losses") for kind in ("png", "pdf", "svg")}


def test_table_prints_and_writes_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    build_store(tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    assert main(["table", "sweeps/depth_ablation.py"]) == 0
    printed = capsys.readouterr().out
    assert "≥20 (2.5x)" in printed
    folder = Path("results/reports/depth_ablation-laptop")
    assert f"{folder}/table.md, .tex, .csv\n" in printed
    first = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert set(first) >= FILES
    assert all(len(content) > 100 for content in first.values())
    assert main(["table", "depth_ablation", "--out", "elsewhere"]) == 0
    assert {file.name: file.read_bytes() for file in Path("elsewhere").iterdir()} == first


def test_a_table_is_printed_before_anything_is_written_or_drawn_and_never_behind_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(30, "Read-only file system")

    def draw_none(results: object) -> None:
        raise ValueError("no figure today")

    words = ["table", "depth_ablation", "--results", str(build_store(tmp_path).root)]
    for place, stop, error in (
        ("pathlib.Path.mkdir", refuse, "Read-only file system"),
        ("analysis.figures.choose.choose_figures", draw_none, "no figure today"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(place, stop)
            assert main(words) == 2
        said = capsys.readouterr()
        assert "≥20 (2.5x)" in said.out
        assert error in said.err
    assert (tmp_path / "reports" / "depth_ablation-laptop" / "table.csv").exists()
    (tmp_path / "reports").rename(tmp_path / "theirs")
    (tmp_path / "reports").symlink_to(tmp_path / "theirs")
    assert main(words) == 2
    assert "reports is a link, which is not followed" in capsys.readouterr().err


def test_the_results_folder_is_that_of_the_sweeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    build_store(tmp_path / "shared")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PCORE_RESULTS", str(tmp_path / "shared"))
    words = ["compare", "depth_ablation/coupling, 1 layer", "depth_ablation/coupling, 2 layers"]
    assert main(words) == 0
    Path("elsewhere").mkdir()
    assert main([*words, "--results", "elsewhere"]) == 2  # the option comes first
    assert f"no sweep has been run in {tmp_path / 'elsewhere'}" in capsys.readouterr().err
    monkeypatch.delenv("PCORE_RESULTS")
    assert main(words) == 2
    assert f"no sweep has been run in {tmp_path / 'results'}" in capsys.readouterr().err


def test_compare_says_what_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    old, new = build_store(tmp_path / "old"), build_store(tmp_path / "new")
    places = [str(store.root) for store in (old, new)]
    assert main(["compare", *places, "depth_ablation"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "6 of 6 rows are equal: the same counts at every length in every run." in printed
    assert "Trials with the same id on both sides: 18." in printed
    assert "verdict" not in printed, "no table without rows"
    write_better_seed(new)
    out = tmp_path / "changes"
    assert main(["compare", *places, "depth_ablation", "--out", str(out)]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("NoPE")]
    assert line.endswith("too few runs")  # one of three
    assert len(pd.read_csv(out / "changes.csv", comment="#")) == len(CELLS)
    words = ["depth_ablation/NoPE, 3 layers", "--by-length", "--out", str(out)]
    assert main(["compare", *places, *words]) == 0
    printed = capsys.readouterr().out
    assert f"[laptop]/NoPE, 3 layers in {places[0]}" in printed
    assert " Holm" not in printed
    assert len(pd.read_csv(out / "changes.csv", comment="#")) == NUM_LENGTHS


def test_without_a_scale_the_only_stored_one_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    store = build_store(tmp_path)
    rows = [
        row | {"sweep": "tiny", "scale": "smoke"}
        for row in next(iter(store.views().values())).to_pylist()
    ]
    store.write_view(rows)
    store.folder.write("searches/found-paper.json", b"{}")
    names = ("tiny", "found", "depth_ablation", "nowhere")
    scales = [usual_scale((tmp_path, n)) for n in names]
    assert scales == ["smoke", "paper", "laptop", "laptop"]
    where = ["--results", str(tmp_path)]
    assert main(["compare", "tiny/NoPE, 3 layers", "tiny/RoPE, 3 layers", *where]) == 0
    assert "smoke" in capsys.readouterr().out
    other = build_store(tmp_path / "other")
    assert usual_scale((tmp_path, "tiny"), (other.root, "depth_ablation")) == "laptop"
    store.write_view([row | {"scale": "paper"} for row in rows])
    assert usual_scale((tmp_path, "tiny")) == "laptop", "there are two"


def test_cells_and_sweeps_of_one_store_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    where = ["--results", str(build_store(tmp_path).root)]
    cell = "depth_ablation/coupling, 1 layer"
    assert main(["compare", cell, "depth_ablation [laptop]/NoPE, 3 layers", *where]) == 0
    printed = capsys.readouterr().out
    assert "coupling, 1 layer → NoPE" in printed
    assert main(["compare", cell, "depth_ablation [laptop]/NoPE*", *where]) == 0
    assert capsys.readouterr().out == printed
    assert main(["compare", "sweeps/depth_ablation.py", "depth_ablation", *where]) == 0
    assert "6 of 6 rows are equal" in capsys.readouterr().out


def write_better_seed(store: Store) -> None:
    """In place of the first seed of NoPE, one that is far better."""
    config = make_config(CELLS["NoPE, 3 layers"][0], 0)
    for shard in store.shards_of(trial_id(config)):
        (Path(store.root) / shard.name).unlink()
    evaluation = make_evaluation(40.0, 1.0, 0)
    store.write(config, "ok", dict(PROVENANCE), [{"step": 50, "loss": 1.0}], evaluation)


def test_a_sweep_without_finished_trials_says_so_and_runs_that_diverged_are_zeros(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    store, configs = Store(tmp_path), [make_config({}, seed) for seed in range(4)]
    command = ["table", "depth_ablation", "--results", str(tmp_path)]
    write_trial(store, configs[3], "error", error="ValueError: no")
    store.write_view(view_rows({"a": configs[:3], "b": configs[3:]}))
    for flags in ([], ["--metric", "loss"], ["--only", "a"]):
        assert main([*command, *flags]) == 0
        printed = capsys.readouterr().out
        (line,) = [line for line in printed.splitlines() if line.startswith("a ")]
        assert set(line.split()[1:]) <= {"0/3", "0", "–"}
    assert "Not counted, missing: 3 of a." in printed
    for config in configs[:3]:
        write_trial(store, config, "diverged")
    assert main(command) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("a ")]
    assert line.split()[1:4] == ["3/3", "0.0†", "0.0"]


def test_a_metric_over_a_range_is_that_of_the_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    where = ["table", "depth_ablation", "--results", str(build_store(tmp_path).root)]
    assert main([*where, "--metric", "exact_match", "--over", "near"]) == 0
    printed = capsys.readouterr().out.splitlines()
    shown = next(row for row in printed if row.startswith("NoPE, 3 layers")).split()[4]
    rows = read_rows(tmp_path, "depth_ablation").query("range == 'near'")
    means = rows[rows["cell"] == "NoPE, 3 layers"].groupby("trial_id")["exact_match"].mean()
    assert shown == f"{100 * means.median():.1f}"
    curves = read_curves(tmp_path, "depth_ablation")
    assert curves.groupby("trial_id")["step"].is_monotonic_increasing.all()
    assert {"loss", "cell", "model.num_layers"} <= set(curves.columns)
