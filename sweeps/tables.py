"""Tables: named groups of sweeps, in the order of the report.

A table is a build target: it names the sweeps whose cells it shows, and `python -m sweeps run --for
TABLE` computes what the store lacks. A sweep's name is also a table, of that sweep alone. `paper`
contains everything: each sweep belongs to exactly one other group. Searches are not tables: they
choose settings and show no results.
"""

TABLES: dict[str, tuple[str, ...]] = {
    "headline": ("two_hundred_digits", "beyond_published"),
    "core": (
        "encoding_ablation",
        "depth_ablation",
        "heads_ablation",
        "max_position_ablation",
        "train_length_ablation",
        "format_ablation",
    ),
    "addition": (
        "five_hundred_digits",
        "rope_ablation",
        "attention_probe",
        "width_ablation",
        "num_examples_ablation",
        "start_ablation",
        "norm_ablation",
        "table_init_ablation",
        "operand_lengths",
    ),
    "beyond": (
        "quickstart",
        "thousand_digits",
        "ten_thousand_digits",
        "packing_ablation",
        "packing_controls",
        "packed_train_length",
        "packed_tasks",
        "long_multiplication",
        "long_sums",
        "mixer_ablation",
    ),
    "other_tasks": (
        "multiplication_depth",
        "operands_ablation",
        "copy_reverse",
        "minesweeper",
        "parity",
    ),
    "scratchpad": ("scratchpad_addition", "scratchpad_multiplication"),
    "theory": ("theory_limits",),
    "open_questions": ("architecture_study", "reordering_tasks", "found_coupling"),
    "methods": ("method_grid",),
}
TABLES["paper"] = tuple(name for names in TABLES.values() for name in names)
