"""The command lines of the snapshot, by program."""

from collections.abc import Iterable

AT = ("--results", "results/published/laptop")
OPTIONS = {  # of `analysis table`, on the laptop store
    "lengths": ("depth_ablation", "--lengths", "18,24"),
    "trained-lengths": ("depth_ablation", "--lengths", "12,15"),
    "only": ("encoding_ablation", "--only", "*coupling*", "--only", "NoPE*"),
    "checkpoint": ("train_length_ablation", "--checkpoint", "best"),
    "metric": ("depth_ablation", "--metric", "token_accuracy"),
    "over": ("found_coupling", "--metric", "near_score", "--over", "near"),
}
PRINTED = tuple(
    ("analysis.__main__", *words)
    for words in (
        ("trace", "depth_ablation", "NoPE, 3 layers", "18", *AT),
        ("compare", "results/published/replication", AT[1], "thousand_digits"),
        ("compare", "results/published/rounding", AT[1], "thousand_digits", "--by-length"),
        ("compare", "depth_ablation/NoPE, 3 layers", "depth_ablation/RoPE, 3 layers", *AT),
    )
)


def _at_store(*lines: str) -> Iterable[tuple[str, ...]]:
    return ((*line.split(), *AT) for line in lines)


def _plan(sweeps: str, *flags: str) -> Iterable[tuple[str, ...]]:
    return (("plan", *sweeps.split(), *line.split(" ")) for line in flags)


def _split(*lines: str) -> Iterable[tuple[str, ...]]:
    return (tuple(line.split()) for line in lines)


REFUSED = {
    "analysis.__main__": (
        *_split("", "table", "report --sweeps", "trace depth_ablation"),
        *_split("table depth_ablation --results results/nowhere", "compare a"),
        *_split("table depth_ablation --lengths 1,a"),
        *_split("attention nothing.pt", "fill nothing.md"),
        *_at_store("table depth", "table packing_search", "table depth_ablation --scale paper"),
        *_at_store("table depth_ablation --checkpoint first", "table width_ablation"),
        *_at_store("table depth_ablation --only nothing", "table depth_ablation --lengths 19"),
        *_at_store("table depth_ablation --metric nothing", "trace depth_ablation NoPE 18"),
        *_at_store("search depth_ablation", "report depth", "select depth_ablation"),
        *_at_store("compare depth_ablation encoding", "compare depth_ablation/a heads_ablation"),
        *_at_store("report --checkpoint first depth_ablation", "report --scale smoke", "page"),
        *_at_store("report --out README.md", "table depth_ablation --over near"),
        *_at_store("compare depth_ablation norm_ablation"),
        *_split("report --results README.md", "table zzz --results results/published/rounding"),
        *_split("compare results/published/laptop results/published/laptop"),
        *_split("compare results/published/rounding results/published/twice_the_steps"),
        ("compare", "depth_ablation", "depth_ablation [paper]", *AT),
        ("compare", "depth_ablation/NoPE, 3 layers", "depth_ablation", *AT),
        ("compare", "depth_ablation/NoPE, 3 layers", "depth_ablation/NoPE, 3 layer", *AT),
        ("compare", "depth_ablation/NoPE, 3 layers", "depth_ablation/coupling*", *AT),
        ("trace", "depth_ablation", "NoPE, 3 layers", "19", *AT),
        ("compare", "depth_ablation/NoPE, 3 layers/seed 0", "depth_ablation", *AT),
    ),
    "sweeps.__main__": (
        *_plan("depth_ablation", "--set optim.learningrate=1", "--set optim.learning_rate=fast"),
        *_plan("depth_ablation", "--axis model.norm=rms,batch", "--set model.num_layers=2"),
        *_plan("depth_ablation", "--set seed=3", "--optim.learning_rate 1e-2", "--except three"),
        *_plan("depth_ablation", "--set optim.beta2=1 --axis optim.beta2=2,3", "--only NOPE*"),
        *_plan("depth_ablation", "--axis position.max_position=99,4", "--add x=RoPE+model.d_ff=8"),
        *_plan("depth_ablation", "--set optim.beta2", "--set =1", "--axis optim.beta2=1"),
        *_plan("depth_ablation", "--axis optim.beta2=1,1", "--add mine", "--add mine=one"),
        *_plan("depth_ablation --set model.d_ff=8", "--name ../up", f"--name {73 * 'n'}"),
        *_plan("depth_ablation --set model.d_ff=8", "--name x~y", "--name lr_search", "--name "),
        *_plan("depth_ablation", "--name wide", "--seeds 1000000000", "--seeds 200x200"),
        *_plan("depth_ablation", "--seeds 1x2x3", f"--seeds 2@1{30 * '0'}", "--seeds 2,"),
        *_plan("depth_ablation heads_ablation", "--set model.d_ff=8 --name wide"),
        *_plan("depth_ablation", "--cpus-per-trial 1e9", "--cpus-per-trial inf", "--device tpu"),
        *_plan("depth_ablation", "--gpus-per-trial -1", "--gpus-per-trial nan"),
        *_plan("depth_ablation", "--results=", "--results ~nouser/x"),
        *_split("gc --older-than inf"),
        *_at_store("why dept/NoPE", "why depth_ablation/NoPE", "why g", "why 0"),
        ("why", "depth_ablation [smoke]/NoPE, 3 layers/seed 600", *AT),
        ("why", "depth_ablation/NoPE, 3 layers/seed 7", *AT),
        ("why", "depth_ablation/NoPE, 3 layers/seed 600", *AT),
        ("plan", "depth_ablation", "--only", "coupling, 1 layer, coupling, 2 layers"),
        ("plan", "depth_ablation", "--add", "NoPE, 3 layers=NoPE, 3 layers+model.d_ff=8"),
        ("plan", "depth_ablation", "--add", "x=NoPE, 3 layers+model.dff=8"),
        ("plan", "depth_ablation", "--add", "x=coupling, 1 layer+model.num_layers=2"),
        *_split("", "plan", "run", "plan depth", "plan --for table9", "list --all"),
        *_split("plan depth_ablation --seeds 0"),
        *_split("plan depth_ablation --set model.num_layer=2", "plan no/such_sweep.py"),
        *_split("plan depth_ablation --set model.num_layers=two", "plan depth_ablation --set x"),
        *_split("plan depth_ablation --set model.dropout=0.1", "merge results/nowhere also"),
        *_split("status depth_ablation --results results/nowhere", "verify --results nowhere"),
        *_at_store("why", "why depth_ablation/none/seed", "trials depth"),
        *_at_store("measure nothing depth_ablation", "replicate"),
    ),
    "pcore.cli": (
        *_split("slove", "show", "show adition 1+2", "show addition 1*2", "show addition"),
        *_split("solve nothing.pt 1+2", "train --model.num_layer 2", "train --preset large"),
        *_split("train --model.num_layers 0", "train --model.num_layers two"),
        *_split("train --position.max_positions 5", "train --optim.learning_rate -1"),
        *_split("ceiling 0", "construct adder", "explain nothing.pt"),
        *_split("attention nothing.pt"),
    ),
}
