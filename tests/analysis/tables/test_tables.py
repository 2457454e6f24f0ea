"""Tables as people and programs read them; expected ones are fixtures/analysis_table.*."""

import dataclasses
import io
from pathlib import Path

import pandas as pd
import pytest

from analysis.load import Results
from analysis.tables import render
from analysis.tables import sweep_tables as tables
from analysis.tables.render import escape_latex
from analysis.tables.sweep_tables import Table, TableCell, ablation_table, percent, times
from tests.support.rows.example_store import CELLS, example

EXPECTED = Path(__file__).parents[2] / "fixtures"
RENDERINGS = {
    "txt": render.render_text,
    "md": render.render_markdown,
    "tex": render.render_latex,
    "csv": render.render_csv,
}


def change_trials(results: Results, cell: str, **columns: object) -> Results:
    """The results with some columns of the trials of a cell replaced."""
    trials = results.trials.copy()
    for name, value in columns.items():
        trials.loc[trials["cell"] == cell, name.replace("__", ".")] = value
    return dataclasses.replace(results, trials=trials)


@pytest.mark.parametrize("kind", RENDERINGS)
def test_renderings_are_as_expected(kind: str):
    text = RENDERINGS[kind](ablation_table(example()))
    assert text == (EXPECTED / f"analysis_table.{kind}").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", RENDERINGS)
def test_notes_stand_under_every_rendering(kind: str):
    table = ablation_table(example())
    flat = " ".join(RENDERINGS[kind](table).split())
    for note in table.notes:
        assert " ".join((escape_latex(note) if kind == "tex" else note).split()) in flat


def test_text_fits_a_terminal_even_with_long_labels():
    results = example()
    view = results.view.assign(cell=results.view["cell"] + " and a rather long explanation of it")
    rename = {"cell": lambda frame: frame["cell"] + " and a rather long explanation of it"}
    long = dataclasses.replace(
        results,
        view=view,
        trials=results.trials.assign(**rename),
        evaluation=results.evaluation.assign(**rename),
    )
    text = render.render_text(ablation_table(long))
    assert max(map(len, text.splitlines())) <= 120


def test_csv_has_full_precision_and_one_row_per_cell():
    table = ablation_table(example())
    frame = pd.read_csv(io.StringIO(render.render_csv(table)), comment="#")
    assert frame["cell"].tolist() == list(CELLS)
    assert frame["em_16_median"].tolist() == table.numbers["em_16_median"].tolist()
    text = frame.select_dtypes(["object", "str"]).columns
    assert set(text) == {"sweep", "scale", "checkpoint", "cell"}
    assert frame.set_index("cell").loc["coupling, 3 layers", "l95"] == 20


def test_oracle_says_that_it_leaks():
    notes = "\n".join(ablation_table(example().at("oracle")).notes)
    assert "ORACLE" in notes
    assert "not a result" in notes


def test_notes_say_the_size_and_training_of_the_models():
    results = example()
    same = dataclasses.replace(results, trials=results.trials.assign(**{"model.num_layers": 1}))
    size = "4 heads, d_model 512, d_ff 2,048. Training: 1,000 steps of 1,000 examples"
    assert f"Model: 1 layer, {size}, learning rate 0.0001." in ablation_table(same).notes
    other = change_trials(same, "NoPE, 3 layers", optim__learning_rate=0.003)
    spans = f"Model: 1 layer, {size}, learning rate 0.0001–0.003 (spans: the cells differ)."
    assert spans in ablation_table(other).notes


def test_notes_say_between_which_runs_intervals_lie_and_how_often_they_hold_the_median():
    table = ablation_table(example(complete=True, num_seeds=9))
    notes = "\n".join(table.notes)
    assert (
        "Interval: 2nd to 8th of 9 runs, covers the true median with probability 96.09 %." in notes
    )
    assert table.rows[0][1].text == "9/9"
    few = "\n".join(ablation_table(example()).notes)  # two runs in two of the cells
    assert (
        "worst–best of 2 runs, covers the true median with probability 50 %; worst–best of 3" in few
    )


def test_notes_say_how_little_crossed_seeds_may_cover():
    results = example(complete=True, num_seeds=8)
    seeds = results.evaluation["seed"]
    crossed = results.evaluation.assign(seed=seeds // 2, data_seed=seeds % 2)
    notes = "\n".join(ablation_table(dataclasses.replace(results, evaluation=crossed)).notes)
    covers = (
        "worst–best of 8 runs (4 model x 2 data seeds), covers the true median with probability"
    )
    assert f"{covers} 94 %" in notes
    assert "and the rest vary equally, 50 % if data seeds alone vary." in notes
    missing = crossed[(crossed["seed"] > 0) | (crossed["data_seed"] > 0)]
    notes = "\n".join(ablation_table(dataclasses.replace(results, evaluation=missing)).notes)
    assert "worst–best of 7 runs (4 model and 2 data seeds), covers the true" in notes


def test_an_l95_in_the_near_range_is_marked_and_explained():
    table = ablation_table(example())
    texts = {row[0].text: row[6].text for row in table.rows}
    assert texts["coupling, 1 layer"] == "14 (1.8x)"
    results = example()
    tuned = results.evaluation.assign(
        range=results.evaluation["range"].mask(results.evaluation["length"] == 14, "near")
    )
    table = ablation_table(dataclasses.replace(results, evaluation=tuned))
    assert {row[0].text: row[6].text for row in table.rows}["coupling, 1 layer"] == "14* (1.8x)"
    assert "*: it lies in the near range, on which recipes are tuned" in "\n".join(table.notes)


def test_a_cell_that_does_not_fit_the_trained_lengths_is_marked_and_explained():
    results = example()
    table = ablation_table(results)
    assert not any("†" in field.text for row in table.rows for field in row)
    assert not any("†" in note for note in table.notes)
    rows = results.evaluation
    unfitted = (rows["cell"] == next(iter(CELLS))) & (rows["range"] == "train")
    rows = rows.assign(num_correct=rows["num_correct"].mask(unfitted, 1890), exact_match=None)
    rows["exact_match"] = rows["num_correct"] / rows["num_examples"]  # 1,890 of 2,000
    table = ablation_table(dataclasses.replace(results, evaluation=rows))
    assert [row[2].text.endswith("†") for row in table.rows] == [True] + [False] * (len(CELLS) - 1)
    assert table.rows[0][2].text == "94.5†"
    assert table.notes[-1].startswith("†: at most 95 % in the median on the trained lengths.")
    assert r"94.5\dag{}" in render.render_latex(table)


def test_formats_of_the_same_questions_are_called_so():
    results = example()
    evaluation = results.evaluation.copy()
    odd = evaluation["cell"] == "NoPE, 3 layers"
    evaluation.loc[odd, "test_set"] = "other"
    notes = "\n".join(ablation_table(dataclasses.replace(results, evaluation=evaluation)).notes)
    assert "15 test sets: at each length" not in notes
    assert "all runs answer the same questions, in several formats." in notes


def test_mixed_code_and_unpaired_test_sets_are_said():
    results = change_trials(example(), "APE, 3 layers", code_hash="ffff", git_dirty=True)
    evaluation = results.evaluation.copy()
    odd = (evaluation["cell"] == "NoPE, 3 layers") & (evaluation["length"] == 12)
    evaluation.loc[odd, ["test_set", "asked"]] = "other"
    notes = "\n".join(ablation_table(dataclasses.replace(results, evaluation=evaluation)).notes)
    assert "MIXED, 2 versions of pcore" in notes
    assert "commit 01234567-dirty (3 trials)" in notes
    assert "NOT the same for all runs at 1 of 14 lengths" in notes
    assert "NOT ALL EXAMPLES" not in notes
    trials = results.trials.assign(**{"eval.stop_error": [0.05, None, *[0.0] * 16]})
    notes = "\n".join(ablation_table(dataclasses.replace(results, trials=trials)).notes)
    assert "NOT ALL EXAMPLES" in notes
    assert "eval.stop_error up to 0.05" in notes


def test_cells_with_other_trained_lengths_get_a_column_and_no_multiples():
    results = change_trials(example(), "APE, 3 layers", data__max_length=6)
    table = ablation_table(results)
    names = [field.text for field in table.header]
    assert names[:4] == ["cell", "runs", "trained", "train"]
    assert table.rows[4][2].text == "1–6"
    assert TableCell("EM@16") in table.header


def test_a_cell_without_runs_shows_dashes():
    results = example()
    gone = results.trials["cell"] == "NoPE, 3 layers"
    trials = results.trials.assign(status=results.trials["status"].mask(gone, "missing"))
    kept = results.evaluation[results.evaluation["cell"] != "NoPE, 3 layers"]
    table = ablation_table(dataclasses.replace(results, trials=trials, evaluation=kept))
    assert table.rows[3][1].text == "0/3"
    assert {field.text for field in table.rows[3][2:]} == {"–"}


def test_chosen_lengths_are_closest_and_the_shorter_of_two():
    results = example()
    only = results.evaluation[results.evaluation["length"] != 16]
    shown = tables.choose_lengths(dataclasses.replace(results, evaluation=only))
    assert (shown.lengths, shown.solve) == ((12, 14, 20), 14)
    near = results.evaluation[results.evaluation["range"] != "test"]
    table = ablation_table(dataclasses.replace(results, evaluation=near))
    assert [field.text for field in table.header] == ["cell", "runs", "train", "L95"]


def test_latex_escapes():
    assert escape_latex("50 % of a_b & c#1 ~ {x}^2 \\ $5") == (
        r"50 \% of a\_b \& c\#1 \textasciitilde{} \{x\}\textasciicircum{}2 \textbackslash{} \$5"
    )
    row = (TableCell("[a]", ""), TableCell("≥20", "[1–2]"))
    table = Table(title="t", header=row, rows=(row,), notes=("n_1",), numbers=pd.DataFrame())
    text = render.render_latex(table)
    assert r"{[}a] & $\geq$20 \\[-2pt]" in text
    assert r"n\_1\par" in text


def test_numbers_for_people():
    assert [percent(x) for x in (1.0, 0.99999, 0.5, 0.00001, 0.0, float("nan"))] == (
        ["100.0", "99.9", "50.0", "0.1", "0.0", "–"]
    )
    assert [times(x) for x in (1.5, 2.0, 6.67)] == ["1.5x", "2x", "6.7x"]


HOSTILE = "=HYPERLINK(1)\n\\end{tabular} | x"


def test_no_label_breaks_a_table_or_is_computed_by_a_spreadsheet():
    results = example()
    rename = {"cell": lambda frame: frame["cell"].replace("NoPE, 3 layers", HOSTILE)}
    frames = {name: getattr(results, name).assign(**rename) for name in ("view", "trials")}
    evaluation = results.evaluation.assign(**rename)
    hostile = dataclasses.replace(results, **frames, evaluation=evaluation, title="a\n\nb\\x")
    table = ablation_table(hostile)
    lines = render.render_markdown(table).splitlines()
    assert lines[0].startswith("**a  b")
    assert sum(line.startswith("|") for line in lines) == 2 + len(table.rows)
    rows = render.render_latex(table).splitlines()
    assert rows[0].startswith("% a  b")
    assert sum("HYPERLINK" in line for line in rows) == 1
    text = render.render_csv(table)
    assert "'=HYPERLINK(1)" in text
    assert '"=' not in text
    assert pd.read_csv(io.StringIO(text), comment="#")["cell"].nunique() == len(CELLS)
