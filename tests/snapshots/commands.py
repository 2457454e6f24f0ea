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
        ("compare", "results/published/replication", AT[1], "thousand_digits"),
        ("compare", "results/published/rounding", AT[1], "thousand_digits", "--by-length"),
        ("compare", "depth_ablation/NoPE, 3 layers", "depth_ablation/RoPE, 3 layers", *AT),
    )
)


def _at_store(*lines: str) -> Iterable[tuple[str, ...]]:
    return ((*line.split(), *AT) for line in lines)


def _plan(sweeps: str, *flags: str) -> Iterable[tuple[str, ...]]:
    return (("plan", *sweeps.split(), *line.split(" ")) for line in flags)


def _each(command: str, *ends: str) -> Iterable[tuple[str, ...]]:
    return _split(*(f"{command} {end}" for end in ends))


def _train(*settings: str) -> Iterable[tuple[str, ...]]:
    return (("train", *(f"--{one}" for one in line.split())) for line in settings)


def _packed(*settings: str) -> Iterable[tuple[str, ...]]:
    base = "data.problems_per_row=4 optim.batch_size=16 data.max_length=3 eval.test_lengths=4"
    base += " position.max_position=60 position.start=wrapped"
    return _train(*(f"{base} {line}" for line in settings))


def _split(*lines: str) -> Iterable[tuple[str, ...]]:
    return (tuple(line.split()) for line in lines)


REFUSED = {
    "analysis.__main__": (
        *_split("", "table", "report --sweeps"),
        *_split("table depth_ablation --results results/nowhere", "compare a"),
        *_split("table depth_ablation --lengths 1,a"),
        *_split("attention nothing.pt", "fill nothing.md"),
        *_at_store("table depth", "table packing_search", "table depth_ablation --scale paper"),
        *_at_store("table depth_ablation --checkpoint first", "table start_ablation"),
        *_at_store("table depth_ablation --only nothing", "table depth_ablation --lengths 19"),
        *_at_store("table depth_ablation --metric nothing"),
        *_at_store("search depth_ablation", "report depth", "select depth_ablation"),
        *_at_store("compare depth_ablation encoding", "compare depth_ablation/a heads_ablation"),
        *_at_store("report --checkpoint first depth_ablation", "report --scale smoke", "page"),
        *_at_store("report --out README.md", "table depth_ablation --over near"),
        *_at_store("compare depth_ablation start_ablation"),
        *_split("report --results README.md", "table zzz --results results/published/rounding"),
        *_split("compare results/published/laptop results/published/laptop"),
        *_split("compare results/published/rounding results/published/twice_the_steps"),
        ("compare", "depth_ablation", "depth_ablation [paper]", *AT),
        ("compare", "depth_ablation/NoPE, 3 layers", "depth_ablation", *AT),
        ("compare", "depth_ablation/NoPE, 3 layers", "depth_ablation/NoPE, 3 layer", *AT),
        ("compare", "depth_ablation/NoPE, 3 layers", "depth_ablation/coupling*", *AT),
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
        *_split("slove", "solve", "solve nothing.pt", "solve nothing.pt 1+2", "solve docs 1+2"),
        *_split("explain", "explain nothing.pt", "explain m.pt --length=--", "attention m.pt"),
        *_split("show", "show adition 1+2", "show addition 1*2", "show addition"),
        *_split("show addition twelve", "show addition 1+2 3+4", "check-task"),
        *_each("check-task addition", "653+046", "=1", "653+046="),
        *_each("new", "encoding my-code:Mine", "encoding mine", "mixer nowhere.mine:Mine"),
        *_split("new task string:Rotate"),
        *_each("show addition 1+2", "--zero-pda", "--strat 2", "-z", "--num-operands 3"),
        *_each("show addition 1+2", "--num-operands", "--num-operands x"),
        *_each("show addition 1+2", "--reverse-query --no-reverse-response", "--start 0"),
        *_each("show addition 1+2", "--start one", "--picture x.bmp", "--picture /no/where/x.png"),
        ("show", "copy", ""),
        ("show", "sorting", "4 7"),
        *_each("show addition", "653", "6x+4", "6+", "653+49 --index-hints --num-hints 3"),
        *_each("show addition", "1+2 --index-hints --num-hints 300"),
        *_each("show multiplication", "12", "1.2*34", "12*34 --second-length 0"),
        *_each("show multiplication --scratchpad", "12*", "12*345 --second-length 3"),
        *_split("show reverse 12a", "show parity 102"),
        *_split("show minesweeper EM/E", "show minesweeper EX"),
        ("show", "commands", "jump twice after"),
        ("show", "commands", "jump thrice"),
        *_train("model.num_layer=2", "num-layer=2", "preset=large", "task=additon", "out=docs"),
        *_train("num-examples=2", "model.num_layers=0", "model.num_layers=two", "device=meta"),
        *_train("position.max_positions=5", "optim.learning_rate=-1", "device=abacus"),
        *_train("eval.test_lengths=9-5", "eval.test_lengths=", "eval.test_lengths=5-9:-1"),
        *_train("eval.test_lengths=1-999999999", "eval.test_lengths=1-9999,1-9999"),
        *_train("eval.test_lengths=1000000000", "eval.test_lengths=31-10000", "seed=1e30"),
        *_train("learning-rate=nan", "learning-rate=inf", "learning-rate=1e308", "optim.eps=0"),
        *_train("optim.eps=1e308", "optim.weight_decay=1e308", "optim.grad_clip=1e308"),
        *_train("data.max_length=1e9", "data.min_length=1e9", "data.num_examples=1e15"),
        *_train("model.d_model=1000000", "num-operands=1e9", "model.num_layers=1e15"),
        *_train("optim.num_steps=1e18", "optim.num_steps=0", "eval.num_examples=1e15"),
        *_train("optim.final_decay_fraction=1.5", "optim.beta2=1", "eval.length_budget=-1"),
        *_train("model.kind=constructed", "model.num_bits=4", "model.attention=entmx"),
        *_train("model.log_base=1 model.attention_scale=log-length", "model.log_base=-3"),
        *_train("model.log_base=40", "model.num_loops=100000", "model.num_loops=0"),
        *_train("model.input_injection", "model.mixer=gated", "model.mixer=attention,attention"),
        *_train("model.attention=learned-scale model.attention_scale=log-length"),
        *_train("model.mixer=gated-linear model.attention=entmax"),
        *_train("model.mixer=gated-linear position.encoding=rotary"),
        *_train("position.test_start=0", "position.max_start=-1", "position.max_positions=30,0"),
        *_train("position.ids=randomized position.start=fixed", "position.id_scale_max=3"),
        *_train("position.max_positions=30,30 position.encoding=none"),
        *_train("position.encoding=none position.ids=randomized position.max_position=5"),
        *_train("task.index_hints eval.test_lengths=35", "position.encoding=learnt"),
        *_train("position.encoding=sinusoidal model.d_model=33"),
        *_train("position.encoding=rotary model.d_head=33"),
        *_train("position.encoding=rotary task.scratchpad"),
        *_train("position.encoding=rotary position.ids=candidates"),
        *_train("position.encoding=os:abort", "position.encoding=pcore.mixing:Softmax"),
        *_train("position.candidate=forward-up"),
        *_train("position.table_init=orthogonal model.d_model=100"),
        *_train("position.ids=candidates position.candidate=up"),
        *_train("position.ids=candidates position.encoding=mixture"),
        *_train("position.ids=candidates position.encoding=mixture position.max_positions=40,40"),
        *_train("position.encoding=residues", "position.encoding=residues position.moduli=1,7"),
        *_train("position.encoding=residues position.moduli=6,7,9"),
        *_train("position.encoding=residues position.moduli=199,197,193"),
        *_train("position.encoding=residues position.moduli=3,5,7"),
        *_train("position.encoding=residues position.moduli=5,7,8 position.max_position=150"),
        *_train("position.moduli=5,7,8"),
        *_packed("data.problems_per_row=", "data.problems_per_row=0", "data.problems_per_row=1,4"),
        *_packed("data.problems_per_row=1,2,4 data.packing_begins=0.5,0.2"),
        *_packed("data.problems_per_row=1,4 data.packing_begins=1", "data.problems_per_row=3"),
        *_packed("data.problems_per_row=32", "data.single_problems=0.9", "data.single_problems=1"),
        *_packed("data.problems_per_row=1 data.packed_order=row", "data.packed_order=row"),
        *_packed("data.problems_per_row=1 data.single_problems=0.1", "position.max_start=5"),
        *_packed("data.packed_order=row position.encoding=none"),
        *_packed("position.ids=randomized position.start=random", "position.max_position=27"),
        *_packed("position.start=random position.max_position=25"),
        *_packed("position.ids=sequential data.packed_order=row position.max_position=47"),
        *_each("construct", "adder", "multiplication --moduli 5,7", "addition --device warp"),
        *_each("construct addition", "--digits 0", "--digits 5000", "--examples -1"),
        *_each("construct addition", "--moduli 3,5", "--moduli 4,6", "--moduli 5,1"),
        *_each("construct addition", "--moduli 5;7", "--moduli 101,991,2"),
    ),
}
