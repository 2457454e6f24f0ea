"""Tables as people and programs read them; expected ones are fixtures/analysis_table.*."""

import dataclasses
import io
from pathlib import Path

import pandas as pd
import pytest

from analysis.load import load_sweep, relabel
from analysis.tables import render
from analysis.tables import sweep_tables as tables
from analysis.tables.metric_table import metric_table
from analysis.tables.render import escape_latex
from analysis.tables.search_table import search_table
from analysis.tables.sweep_tables import ablation_table
from analysis.tables.table import Table, TableCell, value_text
from tests.support.rows.example_store import example

EXPECTED = Path(__file__).parents[2] / "fixtures"
RENDERINGS = {  # Markdown is in tests/snapshots/tables
    "txt": render.render_text,
    "tex": render.render_latex,
    "csv": render.render_csv,
}


@pytest.mark.parametrize("kind", RENDERINGS)
def test_renderings_are_as_expected(kind: str):
    text = RENDERINGS[kind](ablation_table(example()))
    assert text == (EXPECTED / f"analysis_table.{kind}").read_text(encoding="utf-8")


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
    assert shown.places == ((12, None), (14, None), (20, None))
    assert shown.solve == (14, None)


def test_a_pair_of_lengths_is_a_column_of_its_own():
    results = load_sweep("results/published/laptop", "scratchpad_addition", "laptop")
    rows = results.evaluation
    places = [(8, 4), (8, 8), (8, None)]
    table, losses = ablation_table(results, places), metric_table(results, "loss", wanted=places)
    heads = [head.text for head in table.header]
    assert heads[heads.index("EM@8") :][:3] == ["EM@8", "EM@8x4", "EM@8x8"]
    assert [head.text for head in losses.header][2:] == ["8", "8x4", "8x8"]
    for cell, numbers in table.numbers.set_index("cell").iterrows():
        of = rows[(rows["cell"] == cell) & (rows["length"] == 8)]
        loss = losses.numbers.set_index("cell").loc[cell]
        for second in (4, 8):
            pair = of[of["second_length"] == second]
            assert numbers[f"em_8x{second}_median"] == pair["exact_match"].median()
            per_target = pair["loss_sum"] / pair["num_tokens"]
            assert loss[f"at_8x{second}"] == pytest.approx(per_target.median())
        assert (numbers["solve_length"], numbers["solve_second_length"]) == (8, 8)
        assert numbers["num_solved"] == (pair["exact_match"] > 0.95).sum()
    with pytest.raises(ValueError, match="tested in scratchpad_addition; tested: 8x2, "):
        ablation_table(results, [(8, 99)])


def test_latex_escapes():
    assert escape_latex("50 % of a_b & c#1 ~ {x}^2 \\ $5") == (
        r"50 \% of a\_b \& c\#1 \textasciitilde{} \{x\}\textasciicircum{}2 \textbackslash{} \$5"
    )
    row = (TableCell("[a]", ""), TableCell("≥20", "[1–2]"))
    table = Table(title="t", header=row, rows=(row,), notes=("n_1",), numbers=pd.DataFrame())
    text = render.render_latex(table)
    assert r"{[}a] & $\geq$20 \\[-2pt]" in text
    assert r"n\_1\par" in text


HOSTILE = "=HYPERLINK(1)\n\\end{tabular} | x"


def test_no_label_breaks_a_table_or_is_computed_by_a_spreadsheet():
    results = example()
    names = {cell: {"NoPE, 3 layers": HOSTILE}.get(cell, cell) for cell in results.cells}
    hostile = dataclasses.replace(relabel(results, names), title="a\n\nb\\x")
    table = ablation_table(hostile)
    lines = render.render_markdown(table).splitlines()
    assert lines[0].startswith("**a  b")
    assert sum(line.startswith("|") for line in lines) == 2 + len(table.rows)
    rows = render.render_latex(table).splitlines()
    assert rows[0].startswith("% a  b")
    assert sum("HYPERLINK" in line for line in rows) == 1
    read = pd.read_csv(io.StringIO(render.render_csv(table)), comment="#")
    assert read["cell"].tolist() == [cell.replace("=", "'=") for cell in hostile.cells]


def test_what_is_missing_is_a_dash_in_every_table():
    row = {"arm": "a", "data.num_examples": None, "num_steps": 10, "is_best": True}
    other = {"near_score": None, "data.num_examples": 10}
    for tried in ([row | {"near_score": 0.5}, row | other], [row | {"near_score": 0.5}] * 2):
        first, second = search_table(pd.DataFrame(tried), "t").rows
        assert [field.text for field in first] == ["a", "–", "10", "0.5000", "winner"]
        assert second[3].text == ("–" if tried[1]["near_score"] is None else "0.5000")
    shown = [value_text(value) for value in (None, float("nan"), pd.NA, 0.5, 1e-5, 10, True, "a")]
    assert shown == ["–", "–", "–", "0.5", "1e-05", "10", "True", "a"]
