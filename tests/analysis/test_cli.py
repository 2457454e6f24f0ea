"""`python -m analysis` from the outside: what it prints, what it writes, how it fails."""

from pathlib import Path

import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.load import usual_scale
from sweeps.engine.store.store import Store
from tests.support.rows.example_store import (
    NEAR,
    TEST,
    TRAIN,
    build_store,
    make_config,
    view_rows,
    write_trial,
)

FILES = {"table.md", "comparisons.tex", "runs.csv", "lengths.pdf", "losses.svg"}


def test_table_prints_and_writes_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    build_store(tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    drawn = "analysis.figures.style.render"  # drawing has tests of its own
    monkeypatch.setattr(drawn, lambda figure, kinds: dict.fromkeys(kinds, b""))
    assert main(["table", "sweeps/depth_ablation.py"]) == 0
    printed = capsys.readouterr().out
    assert "≥20 (2.5x)" in printed
    folder = Path("results/reports/depth_ablation-laptop")
    assert f"{folder}/table.md, .tex, .csv\n" in printed
    assert {file.name for file in folder.iterdir()} >= FILES


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


def test_compare_says_what_is_equal_and_writes_every_length(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    places = [str(build_store(tmp_path / name).root) for name in ("old", "new")]
    assert main(["compare", *places, "sweeps/depth_ablation.py"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "6 of 6 rows are equal: the same counts at every length in every run." in printed
    assert "Trials with the same id on both sides: 18." in printed
    assert "verdict" not in printed, "no table without rows"
    words = ["depth_ablation [laptop]/NoPE*", "--by-length", "--out", str(tmp_path / "changes")]
    assert main(["compare", *places, *words]) == 0
    printed = capsys.readouterr().out
    assert f"[laptop]/NoPE, 3 layers in {places[0]}" in printed
    rows = pd.read_csv(tmp_path / "changes" / "changes.csv", comment="#")
    assert list(rows["lengths"]) == [*TRAIN, *NEAR, *TEST]


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
    store.write_view([row | {"scale": "paper"} for row in rows])
    assert usual_scale((tmp_path, "tiny")) == "laptop", "there are two"


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
