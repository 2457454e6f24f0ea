"""A small store, and what an unlucky or hostile day does to its files, drawn from a seed."""

import json
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch

from pcore.checkpoint import pack_state
from pcore.config import override, trial_id
from sweeps.baseline import addition
from sweeps.engine.store import mechanisms, packs
from sweeps.engine.store.store import Store
from sweeps.engine.trial.processes import this_process
from tests.support.damage import KINDS
from tests.support.rows.example_store import view_rows

CONFIGS = [override(addition("smoke"), {"seed": seed}) for seed in range(3)]
IDS = [trial_id(config) for config in CONFIGS]
SWEEPS = ("tiny", "other")
JSON = [b"", b"{}", b"[1, 2]", b"null", b'"x"', b"\xff\xfe", b'{"process": 1}', b"{" * 5000]
JSON += [b'{"process": {"pid": "x"}, "state": 1, "trials": 5}', b'{"uri": 1, "written": [1]}']


def evaluation(length: int, right: int, seed: int, examples: int = 10) -> dict[str, Any]:
    """Counts that agree with one another."""
    outcomes = np.zeros(examples, bool)
    outcomes[np.random.default_rng(seed).permutation(examples)[:right]] = True
    return {
        "checkpoint": "last",
        "range": "test",
        "length": length,
        "num_examples": examples,
        "num_correct": right,
        "num_tokens": 10 * examples,
        "num_correct_tokens": 10 * right,
        "num_missed_stop": 0,
        "num_early_stop": 0,
        "num_wrong_symbol": examples - right,
        "loss_sum": 0.5,
        "outcomes": np.packbits(outcomes).tobytes(),
    }


def make_store(root: Path) -> Store:
    """Three finished trials, two of them packed; two views, mechanism files, a state, a marker
    and what is beside them.
    """
    store, folder = Store(root), Store(root).folder
    for seed, config in enumerate(CONFIGS):
        rows = [evaluation(length, 10 - length + seed, seed) for length in (2, 5)]
        reports = [{"step": step, "loss": 1.0 / step} for step in (1, 2)]
        store.write(config, "ok", {"wall_seconds": 1.0 + seed}, reports, rows)
        mechanisms.write(folder, IDS[seed], [{"kind": "cause", "length": 5, "strength": 0.5}])
    packs.Packs(folder).add([store.shards_of(name)[0] for name in IDS[:2]])
    for sweep in SWEEPS:
        cells = {f"{sweep} {i}": [config] for i, config in enumerate(CONFIGS)}
        store.write_view(view_rows(cells, sweep, "smoke"))
    state = pack_state(CONFIGS[0], {"step": 1, "results": [], "weights": torch.arange(50.0)})
    folder.write(f"checkpoints/{IDS[0]}/state.pt", state)
    process = asdict(this_process())
    marker = {"process": process, "launch": "x", "started_at": "2026-01-01T00:00:00+00:00"}
    folder.write(f"running/{IDS[1]}.json", json.dumps(marker).encode())
    return store


class Mutator:
    """Draws one mutation after the other, each of a fresh copy."""

    def __init__(self, seed: int, outside: Path):
        self.rng, self.outside = random.Random(seed), outside
        outside.mkdir(parents=True, exist_ok=True)
        (outside / "theirs.txt").write_text("theirs")

    def mutate(self, root: Path) -> str:
        """Change something below a store; what was done, in words."""
        kinds: list[Callable[[Path], str]] = [self.damage] * 9 + [self.impossible] * 2
        kinds += [self.swap, self.copy, self.link, self.pipe, self.link_folder]
        kinds += [self.small_file, self.foreign, self.stray]
        return self.rng.choice(kinds)(root)

    def _file(self, root: Path, below: str = "") -> Path:
        files = [f for f in sorted((root / below).rglob("*")) if f.is_file()]
        return self.rng.choice(files)

    def damage(self, root: Path) -> str:
        file, kind = self._file(root), self.rng.choice(KINDS)
        file.write_bytes(kind(file.read_bytes(), self.rng))
        return f"{kind.__name__} {file.relative_to(root)}"

    def swap(self, root: Path) -> str:
        folder = self.rng.choice(("trials", "views", "mechanism", "packs", ""))
        one, two = self._file(root, folder), self._file(root, folder)
        first = one.read_bytes()
        one.write_bytes(two.read_bytes())
        two.write_bytes(first)
        return f"swap {one.relative_to(root)} and {two.relative_to(root)}"

    def copy(self, root: Path) -> str:
        one, two = self._file(root), self._file(root)
        two.write_bytes(one.read_bytes())
        return f"copy {one.relative_to(root)} to {two.relative_to(root)}"

    def link(self, root: Path) -> str:
        file, target = self._file(root), self.outside / f"{self.rng.randrange(10**9)}"
        kind = self.rng.choice(("own", "folder", "nothing"))
        if kind == "own":
            shutil.copy(file, target)
        file.unlink()
        file.symlink_to(self.outside if kind == "folder" else target)
        return f"link {file.relative_to(root)} to {kind}"

    def pipe(self, root: Path) -> str:
        file = self._file(root)
        file.unlink()
        os.mkfifo(file)
        return f"pipe {file.relative_to(root)}"

    def link_folder(self, root: Path) -> str:
        folder = self.rng.choice([f for f in sorted(root.rglob("*")) if f.is_dir()])
        target = self.outside / f"{self.rng.randrange(10**9)}"
        shutil.move(folder, target)
        folder.symlink_to(target)
        return f"link folder {folder.relative_to(root)}"

    def small_file(self, root: Path) -> str:
        file = self._file(root, self.rng.choice(("running", "views")))
        file.write_bytes(self.rng.choice(JSON))
        return f"small file {file.relative_to(root)}"

    def foreign(self, root: Path) -> str:
        """A Parquet file that is none of ours."""
        file = self._file(root, self.rng.choice(("trials", "views", "mechanism", "packs")))
        known = ["trial_id", "record", "sweep", "shard", "num_correct"]
        columns = self.rng.sample(["x", *known], k=self.rng.randrange(1, 5))
        rows = self.rng.choice((0, 1, 3))
        values = self.rng.choice(([1] * rows, ["a"] * rows, [None] * rows, [[1.5]] * rows))
        pq.write_table(pa.table([pa.array(values)] * len(columns), names=columns), file)
        return f"foreign {file.relative_to(root)}"

    def impossible(self, root: Path) -> str:
        """A shard without a seal, well-formed, that says what cannot be."""
        file = self._file(root, "trials")
        table, rng = pq.read_table(file).replace_schema_metadata(None), self.rng
        counted = pc.equal(table["record"], "evaluation")
        column, values = rng.choice(
            [
                ("num_correct", [500, -7]),
                ("num_examples", [0, -1, None]),
                ("num_correct_tokens", [10**6, -1]),
                ("num_wrong_symbol", [11, -1]),
                ("outcomes", [b"", b"\xff\xff"]),
                ("range", ["x", None]),
                ("trial_id", ["0" * 16, None]),
                ("attempt", [7, None]),
                ("status", ["lost", None]),
                ("record", ["x", "trial", None]),
                ("config_json", ["[1, 2]", "null", None, "{", '{"task.name": "addition"}']),
            ]
        )
        kind = table.schema.field(column).type
        new = pc.if_else(counted, pa.scalar(rng.choice(values), kind), table[column])
        if column == "config_json":
            new = pa.array([rng.choice(values)] * table.num_rows, kind)
        if rng.random() < 0.1:
            table, column = table.filter(pc.field("record") != "evaluation"), "no evaluations"
        else:
            table = table.set_column(table.column_names.index(column), column, new)
        pq.write_table(table, file)
        return f"impossible {column} in {file.relative_to(root)}"

    def stray(self, root: Path) -> str:
        """A file or folder that nobody expects."""
        folder = root / self.rng.choice(("trials", "views", "packs", "running", "mechanism"))
        name = self.rng.choice(
            ("x.json", "garbage.parquet", "no-scale.parquet", "...json", "-.parquet")
        )
        if not (folder / name).exists():
            (folder / name).write_bytes(self.rng.choice([*JSON, b"PAR1", b"PAR1PAR1"]))
        return f"stray {folder.name}/{name}"
