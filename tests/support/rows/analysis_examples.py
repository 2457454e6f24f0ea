"""Small sweeps with made-up results, for the tests of figures and of the report."""

import hashlib
from pathlib import Path
from typing import Any

from analysis.load import Results, load_sweep
from pcore.config import TrialConfig
from sweeps.engine.store.store import Store
from tests.support.rows.example_store import (
    PROVENANCE,
    copy_store,
    make_config,
    make_evaluation,
    view_rows,
)


def build_sweep(
    root: Path,
    name: str,
    arms: dict[str, tuple[dict[str, Any], float]],
    num_seeds: int = 3,
) -> Results:
    """A finished sweep. arms: label to changes and the length at which half is wrong."""

    def write(store: Store) -> None:
        cells = dict[str, list[TrialConfig]]()
        for label, (changes, half) in arms.items():
            cells[label] = [make_config(changes, seed) for seed in range(num_seeds)]
            for config in cells[label]:
                counts = make_evaluation(half, 1.2, config.seed)
                store.write(config, "ok", PROVENANCE, [{"step": 50, "loss": 1.0}], counts)
        store.write_view(view_rows(cells, sweep=name))

    told_apart = hashlib.sha256(repr((arms, num_seeds)).encode()).hexdigest()
    copy_store(root, f"{name}-{told_apart}", write)
    return load_sweep(root, name, "laptop")


def heads(root: Path) -> Results:
    """One number varies, by powers of two."""
    halves = {1: 11.0, 2: 16.0, 4: 20.0, 8: 30.0}
    arms = {f"{n} heads": ({"model.num_heads": n}, half) for n, half in halves.items()}
    return build_sweep(root, "heads_ablation", arms)


def layers_by_heads(root: Path) -> Results:
    """Two numbers vary; one square of the grid is no cell."""
    arms = {
        f"{layers} layers, {heads} heads": (
            {"model.num_layers": layers, "model.num_heads": heads},
            10.0 + 3 * layers + heads,
        )
        for layers in (1, 2, 4)
        for heads in (1, 2, 4)
        if (layers, heads) != (4, 4)
    }
    return build_sweep(root, "grid_ablation", arms, num_seeds=2)


def two_lengths(root: Path, seconds: tuple[int, ...] = (2, 3, 4, 5)) -> Results:
    """Trained on lengths 1-8 and second lengths 2-3; NoPE fails beyond, coupling slowly."""
    store, cells = Store(root), dict[str, list[TrialConfig]]()
    arms = {"coupling": ({}, 12.0), "NoPE": ({"position.encoding": "none"}, 7.0)}
    for label, (changes, half) in arms.items():
        task = {"task.name": "addition", "eval.second_lengths": seconds}
        cells[label] = [make_config(changes | task, seed) for seed in range(2)]
        for config in cells[label]:
            rows = [
                row | {"second_length": second, "range": row["range"] if second < 4 else "test"}
                for second in seconds
                for row in make_evaluation(half - second, 1.5, config.seed)
                if row["length"] <= 8 or row["length"] in (10, 12, 16, 20)
            ]
            store.write(config, "ok", PROVENANCE, [{"step": 50, "loss": 1.0}], rows)
    store.write_view(view_rows(cells, sweep="operands"))
    return load_sweep(root, "operands", "laptop")
