"""Selection looks at the near range alone, task by task, and says how sure it is."""

from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.fill import fill
from analysis.load import load_sweep
from analysis.tables.render import render_markdown, render_text
from analysis.tables.selection import score_candidates, selection_table
from sweeps.engine.store.store import Store
from tests.support.rows.example_store import build_store, make_config, view_rows, write_trial

ALONE = {"position.ids": "candidates"}
# Cells with the share right of each seed on near lengths. On the test range it is the other way
# round: a selection that looked there would choose differently.
NEAR = {
    ("addition", "forward-up"): (0.1, 0.2),
    ("addition", "backward-up"): (0.9, 0.7),
    ("addition", "sequential"): (0.8, 0.81),
    ("copy", "forward-up"): (0.5, 0.5),
    ("copy", "backward-up"): (0.4, 0.9),
    ("copy", "mixture"): (1.0, 1.0),
    ("copy", "NoPE"): (1.0, 1.0),
}
DIVERGED = ("copy", "backward-up")  # in its second run


def changes(task: str, arm: str) -> dict[str, str]:
    own = {
        "mixture": ALONE | {"position.encoding": "mixture"},
        "NoPE": {"position.encoding": "none"},
        "sequential": {"position.ids": "sequential"},
    }
    return {"task.name": task} | own.get(arm, ALONE | {"position.candidate": arm})


@pytest.fixture
def root(tmp_path) -> Path:
    store, cells = Store(tmp_path), {}
    for key, shares in NEAR.items():
        configs = [make_config(changes(*key), seed) for seed in range(len(shares))]
        cells[", ".join(key)] = configs
        for config, share in zip(configs, shares, strict=True):
            if (key, config.seed) == (DIVERGED, 1):
                write_trial(store, config, "diverged")
                continue
            rows = [_row("near", 9, share), _row("near", 10, share), _row("test", 12, 1 - share)]
            write_trial(store, config, "ok", rows)
    store.write_view(view_rows(cells))
    return tmp_path


def test_the_best_near_score_of_each_task_is_selected(root):
    found = score_candidates(load_sweep(root, "depth_ablation", "laptop"))
    assert list(found["candidate"]) == [arm for _, arm in list(NEAR)[:5]]
    assert list(found["selected"]) == [False, False, True, True, False]
    assert list(found["num_best"]) == [0, 1, 1, 2, 0]
    # (1 - exact match) + (1 - token accuracy); a diverged run has 2
    assert list(found["score"]) == pytest.approx([0.95, 0.3, 0.295, 0.6, 1.35])
    assert list(found["n"]) == [2] * 5


def test_the_command_and_the_marked_place_print_the_same_table(root, tmp_path, capsys):
    table = selection_table(load_sweep(root, "depth_ablation", "laptop"))
    assert main(["select", "depth_ablation", "--results", str(root)]) == 0
    assert render_text(table) in capsys.readouterr().out
    page = tmp_path / "page.md"
    page.write_text(f"<!-- pcore selection depth_ablation laptop {root} -->\n<!-- /pcore -->\n")
    assert render_markdown(table) in fill(page)
    assert "| addition, sequential | sequential | 2 |" in render_markdown(table)


def test_a_sweep_without_candidates_is_refused_in_one_sentence(tmp_path, capsys):
    build_store(tmp_path)
    assert main(["select", "depth_ablation", "--results", str(tmp_path)]) == 2
    assert "no candidate coupling" in capsys.readouterr().err


def _row(range_name: str, length: int, share: float) -> dict:
    return {
        "checkpoint": "last",
        "checkpoint_step": 1,
        "range": range_name,
        "length": length,
        "test_set": "x",
        "num_examples": 1000,
        "num_correct": round(1000 * share),
        "num_tokens": 10_000,
        "num_correct_tokens": 9000,
        "num_missed_stop": 0,
        "num_early_stop": 0,
        "num_wrong_symbol": 1000 - round(1000 * share),
        "loss_sum": 1.0,
    }
