"""Tables: named groups of sweeps, in the order of the report.

A table is a build target: it names the sweeps whose cells it shows, and `python -m sweeps run --for
TABLE` computes what the store lacks. A sweep's name is also a table, of that sweep alone. `paper`
contains everything: each sweep belongs to exactly one other group. Searches are not tables: they
choose settings and show no results.
"""

HEADLINE = ("two_hundred_digits", "beyond_published")
CORE = (
    "encoding_ablation",
    "depth_ablation",
    "heads_ablation",
    "max_position_ablation",
    "train_length_ablation",
    "format_ablation",
)
ADDITION = (
    "five_hundred_digits",
    "rope_ablation",
    "attention_probe",
    "width_ablation",
    "num_examples_ablation",
    "start_ablation",
    "norm_ablation",
    "table_init_ablation",
    "attention_scale_ablation",
    "operand_lengths",
)
BEYOND = (
    "quickstart",
    "thousand_digits",
    "ten_thousand_digits",
    "packing_ablation",
    "packed_train_length",
    "packed_tasks",
    "mixer_ablation",
)
OTHER_TASKS = (
    "multiplication_depth",
    "operands_ablation",
    "copy_reverse",
    "minesweeper",
    "parity",
)
SCRATCHPAD = ("scratchpad_addition", "scratchpad_multiplication")
THEORY = ("theory_limits",)
OPEN_QUESTIONS = ("architecture_study", "reordering_tasks", "found_coupling")
METHODS = ("equal_compute", "method_grid")

TABLES: dict[str, tuple[str, ...]] = {
    "headline": HEADLINE,
    "core": CORE,
    "addition": ADDITION,
    "beyond": BEYOND,
    "other_tasks": OTHER_TASKS,
    "scratchpad": SCRATCHPAD,
    "theory": THEORY,
    "open_questions": OPEN_QUESTIONS,
    "methods": METHODS,
    "paper": HEADLINE
    + CORE
    + ADDITION
    + BEYOND
    + OTHER_TASKS
    + SCRATCHPAD
    + THEORY
    + OPEN_QUESTIONS
    + METHODS,
}
