"""From published rows and an arm of your own to a table, a figure and LaTeX.

A notebook as text: open it in Jupyter (jupytext) or VS Code, or run it as a script. A test runs it.
"""

# %% Published rows: one row per run and tested length, as a tidy frame
from pathlib import Path

import pandas as pd

import sweeps
from analysis.rows import read_rows

published = Path(sweeps.__file__).parents[1] / "results" / "published" / "laptop"
rows = read_rows(published, "depth_ablation")
print(rows.pivot_table(index="cell", columns="length", values="exact_match", aggfunc="median"))

# %% One model by hand: a configuration, its training, its counts, an answer
from pcore import TrialConfig, make_model, override, solve, train
from sweeps.baseline import addition

config: TrialConfig = override(addition("smoke"), {"model.num_layers": 2, "model.d_ff": 48})
*_, last = train(config)
counts = pd.DataFrame(
    {"length": result.length, "range": result.range, "right": result.counts.num_correct}
    for result in last.results
)
print(counts)
model = make_model(config)
model.load_state_dict(last.checkpoints["last"])
print("12+3 =", "".join(solve(model, config, "12+3").response))

# %% The same as an arm of a sweep; finished trials are not run again
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Sweep, arms, grid

own = Sweep(
    name="own",
    title="An arm of my own",
    claim="A narrow layer reaches as far.",
    seeds={"smoke": "2", "laptop": "4", "paper": "4x2"},
    cells=lambda scale: grid(
        addition(scale), arm=arms({"coupling": {}, "narrow": {"model.d_ff": 48}})
    ),
)
results = "results/notebook"
assert main(own, ["--scale", "smoke", "--results", results, "--no-mlflow", "--no-report"]) == 0

# %% Both in one frame; the axes of a sweep are columns
together = pd.concat([rows, read_rows(results, "own")])
print(together.groupby(["sweep", "cell"])["exact_match"].median())

# %% Table, LaTeX and figure, as `python -m analysis table` writes them
from analysis.figures import style
from analysis.figures.curves import plot_lengths
from analysis.load import load_sweep
from analysis.tables.render import render_latex, render_text
from analysis.tables.sweep_tables import ablation_table

loaded = load_sweep(results, "own", "smoke")
table = ablation_table(loaded)
print(render_text(table))
latex = render_latex(table)
print(latex)
print(style.save(plot_lengths(loaded), f"{results}/own", ["png", "pdf"]))
