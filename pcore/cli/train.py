"""`pcore train`: one configuration, any field as a flag."""

import sys
from pathlib import Path
from typing import Any

from pcore.cli.flags import take_flags
from pcore.cli.parser import FAILED, add_device, command_parser, fixed_flags
from pcore.cli.screen import PRESETS, choose_device, preset, run_training, set_threads
from pcore.config import TrialConfig, flatten, known_fields, override, trial_id
from pcore.registry import nearest, resolve
from pcore.tasks import TASKS
from pcore.training.train import Diverged

HELP = """\
Any field of the configuration is a flag by its dotted name (--model.num_layers 2,
--position.encoding none, --task.name addition --task.zero_pad false), or by the last part of it
where only one field ends so (--num-layers 2). Lengths: 12, 1-10, 5-200:5 or a list with commas.
Ctrl-C saves the state; the same command goes on from it."""


def train(words: list[str]) -> int:
    """Train on the screen, from the start or from the state that an earlier call saved."""
    parser = command_parser("train", f"{HELP}\n\n{_list_trial(preset('published'))}")
    parser.add_argument("--preset", default="published", help="published (default) or smoke")
    add_device(parser, default=None)
    parser.add_argument("--threads", type=int, help="on a CPU (default: 1 for small models)")
    parser.add_argument("--out", type=Path, help="model file (default checkpoints/TRIAL.pt)")
    parser.add_argument("--checkpoint", type=Path, help="state file (default OUT with .state.pt)")
    parser.add_argument("--save-every", type=float, default=60.0, help="seconds (default 60)")
    changes, rest = take_flags(words, _trial_fields(words), fixed_flags(parser))
    args = parser.parse_args(rest)
    if args.preset not in PRESETS:
        raise ValueError(f"unknown preset {args.preset!r}.{nearest(args.preset, PRESETS)}")
    if "task" in changes:
        changes["task.name"] = changes.pop("task")
    config = override(preset(args.preset), changes)
    out: Path = args.out or Path("checkpoints") / f"{trial_id(config)}.pt"
    state_file: Path = args.checkpoint or out.with_name(f"{out.stem}.state.pt")
    for file in (out, state_file):
        if file.is_dir():
            raise ValueError(f"{file} is a folder, not a file")
    if out == state_file:
        raise ValueError(f"--out and --checkpoint are the same file {out}")
    device = choose_device(args.device)
    set_threads(args.threads, config)
    try:
        return run_training(config, device, out, state_file, args.save_every)
    except Diverged as error:
        print(f"pcore: {error}", file=sys.stderr)
        return FAILED


def _trial_fields(words: list[str]) -> dict[str, Any]:
    """Every field that a trial of the task in `words` has; `--task NAME` is short for the name."""
    cls = type(TrialConfig().task)
    for word, after in zip(words, [*words[1:], ""], strict=True):
        flag, has_value, text = word.partition("=")
        if flag in ("--task", "--task.name", "--name"):
            cls = resolve(text if has_value else after, TASKS, "task")
    return {"task": str, **known_fields(cls)}


def _list_trial(config: TrialConfig) -> str:
    fields = [f"  --{name} {value}" for name, value in flatten(config).items()]
    return "\n".join(["fields, with the published defaults:", *fields])
