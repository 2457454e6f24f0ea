"""Results of our own that no paper states, with the rules that judge them; data only."""

from analysis.claims.claim import Claim, beats_each
from analysis.claims.combined import Every, Given
from analysis.claims.orderings import Separated, beats
from analysis.claims.rules import ExactMatchAt, Fits, learned

PACKED_ROWS = (
    Claim(
        text="Residue rings in packed rows add 1,000-digit numbers",
        published="trained on 1-12 digits at laptop scale: 83 times",
        certainty="ours",
        source="docs/thousand_digits.md",
        sweep="thousand_digits",
        ordering=ExactMatchAt(cells="*", length=1000, least=0.95),
    ),
    *(
        Claim(
            text=f"{what} further than alone",
            published="compared at 8 times the trained length",
            certainty="ours",
            source="docs/thousand_digits.md",
            sweep=sweep,
            ordering=beats(f"{cells}, packed", f"{cells}, alone", times=8),
        )
        for sweep, cells, what in (
            ("packing_ablation", "rings", "Residue rings in packed rows go"),
            ("packing_ablation", "table", "Rows of a learned table in packed rows go"),
            ("packed_tasks", "copy", "Copying in packed rows goes"),
            ("packed_tasks", "reverse", "Reversing in packed rows goes"),
            ("packed_tasks", "parity, scratchpad", "Parity with a scratchpad in packed rows goes"),
            ("packed_tasks", "three operands", "Addition of three operands in packed rows goes"),
        )
    ),
)

CORE_SET = (
    Claim(
        text="One head adds fewer sums than two, four or eight",
        published="theorem 5.1 of arXiv 2405.20671 needs two",
        certainty="ours",
        source="sweeps/heads_ablation.py",
        sweep="heads_ablation",
        ordering=Given(
            Every((Fits(cells="num_heads=[248]"), learned("num_heads=1"))),
            Separated(better="num_heads=[248]", worse="num_heads=1", times=8),
        ),
    ),
    Claim(
        text="The largest position table generalizes less than the smallest",
        published="left open; each of its rows is trained less often",
        certainty="ours",
        source="sweeps/max_position_ablation.py",
        sweep="max_position_ablation",
        ordering=beats("max_position=202", "max_position=1003", times=8),
    ),
)

PARITY = (
    Claim(
        text="Parity with a scratchpad: coupling goes further than NoPE and random-start APE",
        published="no value in our sources; these arms are in the authors' scripts",
        certainty="ours",
        source="sweeps/parity.py",
        sweep="parity",
        ordering=beats_each(
            "scratchpad, coupling", "scratchpad, NoPE", "scratchpad, random-start APE"
        ),
    ),
    Claim(
        text="Parity: coupling goes further with a scratchpad than without",
        published="no value in our sources; these arms are in the authors' scripts",
        certainty="ours",
        source="sweeps/parity.py",
        sweep="parity",
        ordering=Given(
            Fits(cells="scratchpad, coupling"),
            Separated(better="scratchpad, coupling", worse="no scratchpad, coupling"),
        ),
        remark="without a scratchpad it need not fit: half of all guesses are right",
    ),
)

OTHER_MIXERS = (
    *(
        Claim(
            text=f"{positions}, {mixer}: goes further than plain softmax attention",
            published="so on other tasks; here nothing was tuned for it",
            certainty="ours",
            source=source,
            sweep="mixer_ablation",
            ordering=beats(f"{positions}, {mixer}", f"{positions}, softmax"),
        )
        for positions, mixer, source in (
            ("coupling", "learned scale", "arXiv 2501.19399"),
            ("coupling", "entmax", "arXiv 1905.05702"),
            ("coupling", "sink", "docs/decisions/model.md"),
            ("NoPE", "contextual positions", "arXiv 2405.18719"),
            ("NoPE", "stick-breaking", "arXiv 2410.17980"),
            ("NoPE", "looped", "arXiv 2409.15647"),
            ("NoPE", "gated linear", "arXiv 2312.06635"),
        )
    ),
    *(
        Claim(
            text=f"Coupling goes further than {mixer} without positions",
            published="not published",
            certainty="ours",
            source="sweeps/mixer_ablation.py",
            sweep="mixer_ablation",
            ordering=beats("coupling, softmax", f"NoPE, {mixer}"),
        )
        for mixer in ("contextual positions", "stick-breaking", "looped", "gated linear")
    ),
)

OURS: tuple[Claim, ...] = (*PACKED_ROWS, *CORE_SET, *PARITY, *OTHER_MIXERS)
