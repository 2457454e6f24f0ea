"""A verdict rests on the right scale and checkpoint, and says what stands beside it."""

import dataclasses
from pathlib import Path

import pandas as pd
import pytest

from analysis.claims.claim import Claim
from analysis.claims.judge import judge
from analysis.claims.orderings import Separated, beats
from analysis.claims.published import CLAIMS
from analysis.claims.rules import ExactMatchAt, ReachesAtMost
from analysis.claims.theorems import ExactToBound
from analysis.load import Results, load_sweep
from sweeps.commands.catalogue import find_sweep
from sweeps.engine.store.store import Store
from tests.support.rows.analysis_examples import build_sweep
from tests.support.rows.claim_rows import make_results, make_world, reach
from tests.support.rows.example_store import view_rows, write_trial

ARMS = {
    "coupling": ({"model.num_layers": 1}, 30.0),
    "coupling, deep": ({"model.num_layers": 3}, 17.0),
    "NoPE": ({"position.encoding": "none"}, 6.0),
}
STORED = Separated(better="coupling*", worse="NoPE", times=1.5)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Four runs of three arms, trained on 1-8, tested to 20, at laptop scale."""
    root = tmp_path_factory.mktemp("verdicts")
    build_sweep(root, "ours", ARMS, num_seeds=4)
    build_sweep(root, "few", ARMS, num_seeds=3)
    return root


def stored(root: Path) -> list[Results]:
    """Every sweep of a results folder."""
    return [load_sweep(root, *name) for name in Store(root).view_names()]


def claim(**changes) -> Claim:
    return Claim(
        **({"text": "t", "published": "p", "certainty": "paper", "sweep": "ours"} | changes)
    )


def test_three_runs_decide_nothing(place):
    (verdict,) = judge([claim(sweep="few", ordering=STORED)], stored(place))
    assert (verdict.verdict, verdict.n, verdict.least_p) == ("not enough seeds", 3, 0.1)
    given = claim(sweep="few", ordering=beats("coupling", "NoPE"))
    (verdict,) = judge([given], stored(place))
    assert (verdict.verdict, verdict.least_p) == ("not enough seeds", 0.1)  # not 0.25, of a median
    assert verdict.beside == "smallest p that 3 runs can reach: 0.1"


def test_laptop_scale_supports_an_ordering_and_no_number(place):
    number = ExactMatchAt(cells="coupling", length=16, least=0.9)
    claims = [
        claim(ordering=STORED),
        claim(number=number),
        claim(sweep="other", ordering=STORED),
        claim(ordering=Separated(better="NoPE", worse="coupling")),
        claim(ordering=Separated(better="coupling", worse="coupling*", times=1)),
        claim(ordering=ReachesAtMost(cells="coupling", most=8)),
    ]
    words = [verdict.verdict for verdict in judge(claims, stored(place))]
    assert words[:4] == ["holds", "not run at paper scale", "not run", "reversed"]
    assert words[5] == "does not hold"
    (verdict,) = judge(claims[:1], stored(place))
    assert verdict.least_p == pytest.approx(2 / 70)
    assert verdict.beside == "smallest p that 4 runs can reach: 0.029"
    (both,) = judge([claim(number=number, ordering=STORED)], stored(place))
    assert (both.verdict, both.beside[:11]) == ("holds", "an ordering")
    assert verdict.remark == ""


def test_runs_that_overlap_are_not_separated(tmp_path):
    build_sweep(tmp_path, "ours", {"a": ({"model.num_layers": 1}, 12.0),
                                   "b": ({"model.num_layers": 2}, 12.1)}, num_seeds=6)  # fmt: skip
    (verdict,) = judge([claim(ordering=Separated(better="a", worse="b"))], stored(tmp_path))
    assert verdict.verdict == "not separated"


def test_a_cell_that_the_stored_sweep_lacks_leaves_the_claim_undecided(place):
    (verdict,) = judge([claim(ordering=Separated(better="coupling", worse="APE"))], stored(place))
    assert verdict.verdict == "undecided"
    assert "'APE'" in verdict.ours


def store_paper(root, changes: dict, oracle: float = 1.0) -> None:
    """Minesweeper at paper scale: every cell at 90 % under `last`, at `oracle` under the oracle."""
    from pcore.config import override
    from tests.support.rows.claim_rows import evaluation_columns

    store, cells = Store(root), {}
    for cell in find_sweep("minesweeper").cells("paper"):
        cells[cell.label] = [
            override(cell.config, changes | {"seed": seed, "data_seed": seed}) for seed in range(4)
        ]
        for config in cells[cell.label]:
            rows = [
                evaluation_columns("train" if n < 10 else "test", n, None, share)
                | {"checkpoint": checkpoint, "checkpoint_step": 1, "num_tokens": 1, "loss_sum": 0.0}
                | dict.fromkeys(("num_correct_tokens", "num_missed_stop"), 0)
                | dict.fromkeys(("num_early_stop", "num_wrong_symbol"), 0)
                for checkpoint, share in (("last", 0.9), ("oracle", oracle))
                for n in range(5, 15)
            ]
            for row in rows:
                del row["exact_match"]
            write_trial(store, config, evaluations=rows)
    store.write_view(view_rows(cells, sweep="minesweeper", scale="paper"))


def test_the_oracle_stands_beside_and_does_not_decide(tmp_path):
    store_paper(tmp_path, {})
    rule = ExactMatchAt(cells="shared table", length=14, least=0.85, better=0.95)
    high = dataclasses.replace(rule, length=12, least=0.93)
    claims = [claim(sweep="minesweeper", number=each) for each in (rule, high)]
    first, second = judge(claims, stored(tmp_path))
    assert (first.verdict, first.ours) == ("reproduced", "90.0 % at 14")
    assert first.oracle == "exceeded (100.0 % at 14)"
    assert (second.verdict, second.oracle[:8]) == ("not reproduced", "exceeded")
    assert "under oracle, as the paper selected its runs: exceeded" in second.beside
    (ours,) = judge([dataclasses.replace(claims[0], certainty="ours")], stored(tmp_path))
    assert ours.oracle == ""


@pytest.mark.parametrize("changes", [{"model.d_model": 64}, {"optim.num_steps": 2000}])
def test_rows_of_another_scale_in_a_paper_view_are_not_judged(tmp_path, changes):
    store_paper(tmp_path, changes)
    (verdict,) = judge([c for c in CLAIMS if "14 x 14" in c.text], stored(tmp_path))
    assert verdict.verdict == "undecided"
    assert "does not have the published settings" in verdict.ours


BOARDS = claim(
    sweep="minesweeper",
    number=ExactMatchAt(cells="shared table", length=12, least=0.93),
    ordering=Separated(better="shared table", worse="separate tables"),
)


def boards(scale: str, share: float) -> Results:
    """Results of the sweep of boards: the shared table beyond the trained sizes."""
    if scale == "paper":
        return make_world("minesweeper", lambda *_: share)
    tables = {"shared table": [reach(8, share)] * 4, "separate tables": [reach(8)] * 4}
    return dataclasses.replace(make_results(tables, scale), sweep="minesweeper")


def test_an_ordering_at_laptop_scale_does_not_save_a_number_that_was_not_reproduced():
    laptop = boards("laptop", 0.9)
    for share, expected in ((0.5, ("not reproduced", "paper")), (0.95, ("reproduced", "paper"))):
        (row,) = judge([BOARDS], [boards("paper", share), laptop])
        assert (row.verdict, row.scale) == expected
    (row,) = judge([BOARDS], [laptop])
    assert (row.verdict, row.scale) == ("holds", "laptop")


def test_where_paper_scale_decides_nothing_the_laptop_scale_may():
    paper, laptop = boards("paper", 0.5), boards("laptop", 0.9)
    rows = paper.evaluation[paper.evaluation["seed"] < 3]
    few = dataclasses.replace(paper, evaluation=rows, all_evaluation=rows)
    (row,) = judge([BOARDS], [few, laptop])
    assert (row.verdict, row.scale) == ("holds", "laptop")
    (row,) = judge([BOARDS], [few])
    assert (row.verdict, row.scale) == ("not enough seeds", "paper")


def test_another_checkpoint_does_not_stand_in_for_missing_runs():
    results = make_results({"a": [reach(20)] * 4})
    rows = results.evaluation
    few = pd.concat([rows[rows["seed"] < 3], rows.assign(checkpoint="best")])
    results = dataclasses.replace(results, evaluation=few, all_evaluation=few)
    rule = ExactMatchAt(cells="a", length=16, least=0.9)
    (row,) = judge([claim(ordering=rule)], [results])
    assert (row.verdict, row.n) == ("not enough seeds", 3)


def test_planned_runs_without_a_result_are_counted():
    results = make_results({"a": [reach(20)] * 8, "b": [reach(8)] * 4, "c": [reach(8)] * 4})
    (row,) = judge([claim(ordering=Separated(better="a", worse="b"))], [results])
    assert row.ours == "worst run of 'a' 100.0 %, best of 'b' 0.0 % at 12"
    trials = results.trials.copy()
    trials.loc[1:3, "status"] = "missing"
    trials.loc[4, "status"] = "oom"
    trials.loc[trials["cell"] == "c", "status"] = "error"  # no rule names it
    lost = trials.loc[~trials["status"].eq("ok"), "trial_id"]
    rows = results.evaluation[~results.evaluation["trial_id"].isin(lost)]
    results = dataclasses.replace(results, trials=trials, evaluation=rows, all_evaluation=rows)
    (row,) = judge([claim(ordering=Separated(better="a", worse="b"))], [results])
    assert row.verdict == "holds"
    assert row.ours.endswith("; 4 of 12 planned runs do not count: 3 missing, 1 oom")


def test_what_no_paper_says_is_not_reproduced():
    """Nor exceeded: a result of ours holds or does not."""
    rule = ExactToBound(cells="theory, *", less=2, beyond=True)
    results = make_results({"theory, P=4": [reach(14)]})
    results = dataclasses.replace(results, trials=results.trials.assign(**{"model.num_bits": 4.0}))
    for certainty, word in (("ours", "holds"), ("paper", "reproduced")):
        (verdict,) = judge([claim(proven=rule, certainty=certainty)], [results])
        assert verdict.verdict == word
