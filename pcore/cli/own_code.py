"""`pcore new` and `pcore check-encoding`, -task, -attention, -mixer: write and check own code."""

import importlib.util
import re
import sys
import textwrap
from collections.abc import Sequence
from functools import partial
from keyword import iskeyword
from pathlib import Path

from pcore.cli.parser import FAILED, command_parser
from pcore.cli.show import choose_task, format_example, show_batch
from pcore.config import OWN_CODE, make_generator

TEMPLATES = Path(__file__).parents[1] / "conformance" / "templates"

FIELDS = {kind: field for field, kind in OWN_CODE.items()}


def new(words: list[str]) -> int:
    """Write a class that works, to be changed; print how to check and train it."""
    parser = command_parser("new")
    parser.add_argument("kind", choices=FIELDS)
    parser.add_argument("name", metavar="MODULE:CLASS", help="a module that does not exist yet")
    options = parser.parse_args(words)
    path = write_template(options.kind, options.name)
    print(f"wrote {path}. Change it, then:")
    examples = ""
    if options.kind == "task":
        examples = " QUERY=ANSWER  # some that you worked out; prints the ID of each symbol"
    print(f"  pcore check-{options.kind} {options.name}{examples}")
    flag = FIELDS[options.kind].removesuffix(".name")
    train = f"pcore train --preset small --{flag} {options.name}"
    print(f"  {train}  # a minute at most: does training run?")
    print(f"  {_row_command(options.kind, options.name)}  # its row in a table")
    return 0


def _row_command(kind: str, name: str) -> str:
    """The command for the row of a class, and of what it is compared with."""
    label, own = name.partition(":")[2], f"{FIELDS[kind]}={name}"
    if kind == "task":  # cells of another task say nothing beside its own
        arms = [f"{label}, {arm}={arm}+{own}" for arm in ("coupling", "NoPE")]
        cells = [f'--only "{label}, *"', *(f'--add "{arm}"' for arm in arms)]
    elif kind == "encoding":
        cells = ["--only coupling --only NoPE", f'--add "{label}=coupling+{own}"']
    else:
        plain = {"attention": "softmax", "mixer": "attention"}[kind]
        cells = ["--only coupling", f"--axis {FIELDS[kind]}={plain},{name}"]
    return f"python -m sweeps run encoding_ablation --name {label} --scale smoke {' '.join(cells)}"


def _check(kind: str, words: list[str]) -> int:
    """Print every rule for a kind of own code, and whether it is kept; of a task too whether each
    example is answered as expected.
    """
    parser = command_parser(f"check-{kind}")
    parser.add_argument("name", metavar="NAME", help=f"a known {kind} or package.module:Class")
    if kind == "task":
        parser.add_argument(
            "examples",
            metavar="QUERY=ANSWER",
            nargs="*",
            help="what the task should answer, with its symbols in their order: 653+49=2070",
        )
    options = parser.parse_args(words)
    name, answers = options.name, [_read_example(t) for t in getattr(options, "examples", ())]

    import torch

    from pcore.conformance import check, format_checks

    torch.set_num_threads(1)  # the models are tiny
    checks = check(kind, name, answers)
    print(format_checks(name, checks))
    if not all(found.passed for found in checks):
        return FAILED
    if kind == "task":
        _print_ids(name, [query for query, _ in answers])
        if not answers:
            print(f"Are its answers right? Name some: pcore check-task {name} QUERY=ANSWER")
        elif ":" in name:
            print(f"Its row in a table: {_row_command('task', name)}")
    return 0


check_encoding, check_task, check_attention, check_mixer = (
    partial(_check, kind) for kind in ("encoding", "task", "attention", "mixer")
)


def _read_example(text: str) -> tuple[str, str]:
    query, _, answer = map(str.strip, text.partition("="))
    if not (query and answer):
        raise ValueError(f"{text!r} is not QUERY=ANSWER, such as 653+49=2070 of addition")
    return query, answer


def _print_ids(name: str, queries: Sequence[str]) -> None:
    """Print the relative IDs of these queries, or of a random one, for the user to look at."""
    from pcore.conformance.tasks import TaskBench

    bench = TaskBench(name)
    asked = [(choose_task(type(bench.task), {}, query), query) for query in queries]
    shown = [(task, task.encode(query)) for task, query in asked]
    if not queries:
        length, rng = bench.lengths[-1], make_generator("conformance")
        shown = [(bench.task, bench.task.sample_length(1, length, rng))]
    print("Symbols with the same ID are coupled. Are these as you meant?")
    for task, batch in shown:
        print(textwrap.indent(format_example(show_batch(task, batch)), "  "))
        end, ids = int((~batch.response_mask[0]).sum()) - 1, batch.relative_ids[0].tolist()
        if ":" in name and ids[end] in ids[end + 1 : -1]:
            print("note: '=' shares an ID with a symbol of the answer: is that meant?")


def read_template(kind: str) -> tuple[str, str]:
    """The source of the template of a kind, a module with one class, and the name of that class."""
    text = (TEMPLATES / f"{kind}.py").read_text()
    (name,) = re.findall(r"^class (\w+)", text, flags=re.MULTILINE)
    return text, name


def write_template(kind: str, name: str) -> Path:
    """Write the template as `module:Class` (`package.module:Class` in a folder that exists).

    Raises ValueError for other names, for a folder that is missing, and for a file that exists.
    """
    module, _, class_name = name.partition(":")
    parts = (*module.split("."), class_name)
    if not all(part.isidentifier() and not iskeyword(part) for part in parts):
        raise ValueError(f"{name!r} is not module:Class; for example my_{kind}:{kind.title()}")
    if (first := parts[0]) in sys.stdlib_module_names:
        raise ValueError(f"{module} is a module of Python's: choose another name")
    path = Path(*module.split(".")).with_suffix(".py")
    spec = importlib.util.find_spec(first)
    places = spec.submodule_search_locations if spec else None
    if spec and not path.exists() and str(Path(first).resolve()) not in (places or ()):
        raise ValueError(f"{first} is an installed module: choose another name")
    text, old = read_template(kind)
    try:
        with open(path, "x") as file:
            file.write(re.sub(rf"\b{old}\b", class_name, text))
    except FileExistsError:
        raise ValueError(
            f"{path} exists, and stays as it is; name another module: trials know a class by its "
            "whole file, so another class in it would make finished ones stale"
        ) from None
    except FileNotFoundError:
        raise ValueError(f"there is no folder {path.parent} here for {path.name}") from None
    return path
