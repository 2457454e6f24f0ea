"""The report and its figures are made again where rows or code have changed, and only there."""

import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.figures import choose
from analysis.load import Results
from analysis.report import stamps
from analysis.report.write import NOTE
from sweeps.engine.store.store import Store
from tests.analysis.report.test_browse import add_sweep
from tests.support.rows.example_store import make_config, make_evaluation, write_trial


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store of two sweeps, each with a run that failed."""
    store = Store(tmp_path / "rows")
    add_sweep(store, "one", d_ff=78)
    add_sweep(store, "other")
    return store


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sweeps of which figures are drawn from now on: one of each, so that tests are quick."""
    names, draw = list[str](), choose.draw_figures

    def count(results: Results) -> Iterator[choose.SweepFigure]:
        names.append(results.sweep)
        return itertools.islice(draw(results), 1)

    monkeypatch.setattr(choose, "draw_figures", count)
    return names


def report(store: Store, out: Path, *options: str) -> dict[str, bytes]:
    """Every file of a report on the store, by name."""
    out.mkdir(exist_ok=True)
    command = ["report", "--results", store.root, "--out", str(out / "report.html"), *options]
    assert main(command) == 0
    files = (file for file in out.rglob("*") if file.is_file())
    return {str(file.relative_to(out)): file.read_bytes() for file in files}


def finish(store: Store) -> None:
    """The run of sweep `other` that failed succeeds."""
    write_trial(store, make_config({"model.d_ff": 77}, 1), "ok", make_evaluation(15.0, 1.0, 1))


def test_only_figures_of_new_rows_are_drawn(
    store: Store, drawn: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    first = report(store, tmp_path / "a")
    assert drawn == ["one", "other"]
    said = capsys.readouterr().out
    assert report(store, tmp_path / "a") == first
    assert drawn == ["one", "other"]
    assert capsys.readouterr().out == said.replace("written:", "unchanged:")
    finish(store)
    after = report(store, tmp_path / "a")
    assert drawn[2:] == ["other"]
    changed = {name for name in after if after[name] != first[name]}
    assert {"report.html", "other-laptop/lengths.svg"} <= changed
    assert not {name for name in changed if name.startswith("one-")}
    assert after == report(store, tmp_path / "b")  # as if there had been nothing before


def test_changed_code_and_libraries_draw_again(
    store: Store, drawn: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    code = tmp_path / "code"
    for name in stamps.CODE:
        shutil.copytree(stamps.ROOT / name, code / name)
    monkeypatch.setattr(stamps, "ROOT", code)
    report(store, tmp_path / "a")
    report(store, tmp_path / "a")
    assert len(drawn) == 2
    file = code / "analysis" / "figures" / "style.py"
    file.write_text(f"{file.read_text()}\n")
    report(store, tmp_path / "a")
    assert len(drawn) == 4
    for library in ("matplotlib", "seaborn"):
        versions = {name: stamps.version(name) for name in stamps.LIBRARIES} | {library: "99"}
        monkeypatch.setattr(stamps, "version", versions.__getitem__)
        drawn.clear()
        report(store, tmp_path / "a")
        assert len(drawn) == 2


def test_files_that_are_not_as_written_are_made_again(
    store: Store, drawn: list[str], tmp_path: Path
):
    whole = report(store, tmp_path / "a")
    for name in ("one-laptop/lengths.png", f"one-laptop/{NOTE}"):
        drawn.clear()
        (tmp_path / "a" / name).write_bytes(whole[name][:-20])  # its writer was killed
        (tmp_path / "a" / "report.html").unlink()
        assert report(store, tmp_path / "a") == whole
        assert drawn == ["one"]
    drawn.clear()
    for name in ("verdicts.md", "other-laptop/table.csv"):
        (tmp_path / "a" / name).unlink()
        assert report(store, tmp_path / "a") == whole
    assert not drawn


def test_another_checkpoint_in_the_same_folder_is_noticed(
    store: Store, drawn: list[str], tmp_path: Path
):
    last = report(store, tmp_path / "a")
    finish(store)
    write_trial(
        store,
        make_config({"model.d_ff": 78}, 1),
        "ok",
        [*make_evaluation(15.0, 1.0, 1), *make_evaluation(9.0, 1.0, 1, checkpoint="oracle")],
    )
    oracle = report(store, tmp_path / "a", "one", "--checkpoint", "oracle")
    figure = "one-laptop/lengths.svg"
    assert oracle[figure] != last[figure]
    last = report(store, tmp_path / "a")
    assert last[figure] == report(store, tmp_path / "b")[figure] != oracle[figure]


def test_table_and_report_share_their_figures(store: Store, drawn: list[str], tmp_path: Path):
    report(store, tmp_path / "a")
    drawn.clear()
    command = ["table", "one", "--results", store.root, "--out", str(tmp_path / "a/one-laptop")]
    assert main(command) == 0
    assert not drawn


def test_a_note_does_not_vouch_for_what_another_writer_wrote(tmp_path: Path):
    file, note = tmp_path / "a.svg", tmp_path / NOTE
    file.write_bytes(b"theirs")  # after ours
    stamps.write_note(note, "rows", {file: stamps.hash_bytes(b"ours")}, None)
    assert stamps.read_note(note, "rows") is None
    file.write_bytes(b"ours")
    kept = stamps.read_note(note, "rows")
    assert kept is not None
    assert kept.files == {file: b"ours"}
    assert stamps.read_note(note, "other rows") is None
    for text in ("", "[]", "null", json.dumps({"made_of": "rows", "files": 3})):
        note.write_text(text)
        assert stamps.read_note(note, "rows") is None
