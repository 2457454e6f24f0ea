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
    paths = [
        str(Path(first.strip()).with_suffix(suffix))
        for line in printed.partition("written:\n")[2].splitlines()
        for first, *others in [line.split(", ")]
        for suffix in (Path(first).suffix, *others)
    ]
    assert {f"results/reports/depth_ablation-laptop/{name}" for name in FILES} <= set(paths)
    assert all(Path(path).stat().st_size > 100 for path in paths)
    first = {path: Path(path).read_bytes() for path in paths}
    assert main(["table", "depth_ablation", "--out", "elsewhere"]) == 0
    for path, content in first.items():
        assert (tmp_path / "elsewhere" / Path(path).name).read_bytes() == content


def test_a_table_of_a_store_that_cannot_be_written_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(30, "Read-only file system")

    results = str(build_store(tmp_path).root)
    monkeypatch.setattr(Path, "mkdir", refuse)
    assert main(["table", "depth_ablation", "--results", results]) == 0
    said = capsys.readouterr()
    assert "≥20 (2.5x)" in said.out
    assert "not written, the results folder cannot be written: " in said.err
    assert "Read-only file system" in said.err
    there = ["table", "depth_ablation", "--results", results, "--out", str(tmp_path / "out")]
    assert main(there) == 2
    monkeypatch.undo()
    (tmp_path / "theirs").mkdir()
    (tmp_path / "reports").symlink_to(tmp_path / "theirs")
    assert main(["table", "depth_ablation", "--results", results]) == 2
    assert "reports is a link, which is not followed" in capsys.readouterr().err
    assert not list((tmp_path / "theirs").iterdir())


def test_the_results_folder_is_that_of_the_sweeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    build_store(tmp_path / "shared")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PCORE_RESULTS", str(tmp_path / "shared"))
    words = ["trace", "depth_ablation", "coupling, 1 layer", "16"]
    assert main(words) == 0
    assert f"--results {tmp_path / 'shared'}" in capsys.readouterr().out
    Path("elsewhere").mkdir()
    assert main([*words, "--results", "elsewhere"]) == 2  # the option comes first
    assert f"no sweep has been run in {tmp_path / 'elsewhere'}" in capsys.readouterr().err
    monkeypatch.delenv("PCORE_RESULTS")
    assert main(words) == 2
    assert f"no sweep has been run in {tmp_path / 'results'}" in capsys.readouterr().err


def test_the_table_is_printed_before_any_figure_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def stop(results):
        raise ValueError("no figure today")

    monkeypatch.setattr("analysis.figures.choose.draw_figures", stop)
    results = str(build_store(tmp_path).root)
    assert main(["table", "depth_ablation", "--results", results]) == 2
    assert "≥20 (2.5x)" in capsys.readouterr().out
    assert (tmp_path / "reports" / "depth_ablation-laptop" / "table.csv").exists()


def test_compare_says_what_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    old, new = build_store(tmp_path / "old"), build_store(tmp_path / "new")
    places = [str(store.root) for store in (old, new)]
    assert main(["compare", *places, "depth_ablation"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "On both sides: 6 cells, 6 with the very same trials. Only in A: none." in printed
    assert "6 of 6 rows are equal: the same counts at every length in every run." in printed
    assert "verdict" not in printed, "no table without rows"
    assert main(["compare", *places]) == 0, "they have one sweep in common"
    assert " ".join(capsys.readouterr().out.split()) == printed
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
    for command in (
        ["trace", "tiny", "NoPE, 3 layers", "12"],
        ["compare", "tiny/NoPE, 3 layers", "tiny/RoPE, 3 layers"],
    ):
        assert main([*command, *where]) == 0
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


def test_changed_sweeps_are_named_where_the_sweep_lacks_a_scale(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    store = build_store(tmp_path)
    rows = next(iter(store.views().values())).to_pylist()
    for name, there in (("depth_ablation", "has no scale 'smoke'"), ("tiny", "no sweep 'tiny'")):
        changed = f"{name}~model.d_ff=64"
        store.write_view([row | {"sweep": changed, "scale": "smoke"} for row in rows])
        assert main(["table", name, "--scale", "smoke", "--results", str(tmp_path)]) == 2
        message = capsys.readouterr().err
        assert there in message
        assert message.endswith(f"; changed, at smoke scale: {changed!r}\n")


def test_compare_counts_cells_of_one_side_and_cells_with_the_same_trials(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    store = build_store(tmp_path)
    where = ["depth_ablation", "some", "--results", str(tmp_path)]
    rows = store.load_view("depth_ablation", "laptop").to_pylist()
    first, second, *others = CELLS
    for row in rows:
        row["sweep"] = "some"
        row["cell"] = {first: "renamed"}.get(row["cell"], row["cell"])
    kept = [row for row in rows if (row["cell"], row["seed"]) != (second, 0)]
    store.write_view(kept)
    for flags in ([], ["--by-length"]):
        assert main(["compare", *where, *flags]) == 0
        printed = " ".join(capsys.readouterr().out.split())
        assert "On both sides: 5 cells, 4 with the very same trials." in printed
        assert f"Only in A: 1 ({first}). Only in B: 1 (renamed)." in printed
        assert "no runs are paired" not in printed
    store.write_view([row for row in kept if row["seed"] == 1])
    store.write_view([{**row, "sweep": "other"} for row in kept if row["seed"] == 2])
    assert main(["compare", "some", "other", "--results", str(tmp_path)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "No run of A has the seeds of a run of B, so no runs are paired." in printed
    few = [row for row in rows if row["cell"] == others[-1]]
    store.write_view([*few, *({**row, "cell": f"cell {i}"} for i in range(7) for row in few)])
    assert main(["compare", *where]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Only in B: 7 (cell 0; cell 1; cell 2; cell 3; cell 4; ...)." in printed


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
    assert main(command) == 0
    assert "nothing to tabulate: 0 of 4 trials done; 1 error, 3 missing" in capsys.readouterr().out
    assert not (tmp_path / "reports").exists()
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
