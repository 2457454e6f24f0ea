"""Views only grow: a launch adds its cells and seeds, and hides none of those before it."""

import pytest

from sweeps.__main__ import main
from sweeps.engine.store.store import Store
from sweeps.engine.store.views import join_launches
from tests.support.sweeps.tiny import make_sweep, run

SCRIPT = """
from sweeps.engine.spec import Cell, Sweep
SEEDS = dict.fromkeys(("smoke", "laptop", "paper"), "1")
SWEEP = Sweep(title="Mine", cells=lambda scale: [Cell(label="one", config=CONFIG)], seeds=SEEDS)
"""


def listed(folder) -> list[tuple[str, int]]:
    rows = Store(folder).load_view("tiny", "smoke").to_pylist()
    return sorted((row["cell"], row["seed"]) for row in rows)


def test_a_launch_of_other_seeds_hides_none_of_those_before(tmp_path, capsys):
    for seeds in ("2", "1@2", "1@2"):
        assert run(make_sweep(one={}), tmp_path, "--seeds", seeds) == 0
    assert listed(tmp_path) == [("one", 0), ("one", 1), ("one", 2)]
    assert len(list((tmp_path / "views").iterdir())) == 2, "a repeated launch writes nothing"
    assert "not shown" not in capsys.readouterr().out
    assert run(make_sweep(one={"optim.num_steps": 2}), tmp_path, "--seeds", "1") == 0
    assert "3 older trials not shown: their labels are other cells now" in capsys.readouterr().out


def rows(launch: str, *cells: str, seed: int = 0) -> list[dict]:
    """Of cells given as label:id."""
    pairs = [cell.split(":") for cell in cells]
    common = {"title": launch, "claim": "", "command": None, "script": "a.py", "axes": "{}"}
    common |= {"launched_at": launch, "seed": seed, "data_seed": seed}
    return [
        common | {"cell": label, "cell_order": i, "cell_id": name, "trial_id": f"{name}{seed}"}
        for i, (label, name) in enumerate(pairs)
    ]


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (["a:1", "b:2"], ["a:10", "a:11", "b:20", "b:21"]),
        (["b:2", "c:3"], ["b:20", "b:21", "c:31", "a:10"]),  # the newest cells come first
        (["a:9"], ["a:91", "b:20"]),  # what is called a now is another cell
        (["new:1"], ["new:10", "new:11", "b:20"]),
        (["b:1", "a:2"], ["b:10", "b:11", "a:20", "a:21"]),
    ],
)
def test_a_label_stands_for_its_newest_cell_and_a_cell_has_its_newest_label(
    new, expected, is_reversed
):
    stored = [*rows("2026-01-01", "a:1", "b:2"), *rows("2026-01-02", *new, seed=1)]
    found = join_launches(stored[::-1] if is_reversed else stored)
    found.sort(key=lambda row: (row["cell_order"], row["seed"]))
    assert [f"{row['cell']}:{row['trial_id']}" for row in found] == expected
    assert {row["title"] for row in found} == {"2026-01-02"}


def test_what_a_cell_hides_stays_hidden_when_it_is_renamed():
    launches = ("2026-01-01", "a:1"), ("2026-01-02", "a:2"), ("2026-01-03", "b:2")
    stored = [row for launch in launches for row in rows(*launch)]
    assert [(row["cell"], row["cell_id"]) for row in join_launches(stored)] == [("b", "2")]


def test_a_script_with_the_name_of_a_shipped_one_is_refused(tmp_path, capsys):
    script = tmp_path / "depth_ablation.py"
    script.write_text("from tests.support.sweeps.tiny import CONFIG\n" + SCRIPT)
    assert main(["plan", str(script), "--scale", "smoke", "--results", str(tmp_path)]) == 2
    assert f"{script} has the name of a sweep of pcore" in capsys.readouterr().err


def test_two_scripts_of_one_name_are_refused_with_both(tmp_path, capsys):
    assert run(make_sweep(one={}), tmp_path / "ours", "--seeds", "1") == 0
    rows = Store(tmp_path / "ours").load_view("tiny", "smoke").to_pylist()
    Store(tmp_path / "theirs").write_view([row | {"script": "first.py"} for row in rows])
    assert run(make_sweep(one={}), tmp_path / "theirs", "--plan") == 2
    assert (
        "has another sweep 'tiny' [smoke], made by: first.py; choose another name, or remove "
        "it first: python -m sweeps forget tiny"
    ) in capsys.readouterr().err
