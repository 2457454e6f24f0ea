"""The layers of each package, and which may use which: analysis -> sweeps.engine.store -> pcore.

`LAYERS` lists the parts (folders and single modules) of each package from the lowest layer up; a
part may import those of its own and lower layers, without a circle. Each framework is imported by
one or two files.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = {
    "pcore": (
        ("files", "registry", "vocab"),
        ("tasks",),
        ("settings",),
        ("config",),
        ("encodings",),
        ("batch",),
        ("packing", "mixing"),
        ("model",),
        ("checkpoint", "data", "evaluation", "theory"),
        ("decoding", "flops", "validation"),
        ("training",),
        ("diagnosis",),
        ("conformance",),
        ("cli",),
    ),
    "sweeps.engine": (
        ("store", "spec", "arithmetic"),
        ("trial", "price", "changes"),
        ("plan",),
        ("executors",),
        ("options",),
        ("launch",),
        ("search",),
    ),
    "sweeps": (
        ("engine", "tables"),
        (
            "baseline",
            "commands",
            "distractors",
            "hooks",
            "minesweeper_ahead",
            "product_rows",
            "sum_rows",
        ),
    ),
    "analysis": (
        ("load",),
        ("statistics", "rows"),
        ("tables",),
        ("settings", "figures"),
        ("findings",),
        ("fill", "report"),
        ("commands",),
    ),
}
OF_PACKAGES = {"pcore.lazy_torch"}  # names of a package itself, in no part
FRAMEWORK_FILES = {
    "ray": {"sweeps/engine/executors/ray_tune.py", "sweeps/engine/executors/ray_cluster.py"},
    "mlflow": {"sweeps/engine/launch/mirror/tracking.py"},
    "optuna": {"sweeps/engine/search/study.py"},
}
OF_SWEEPS = ("sweeps.engine.store.", "sweeps.tables.")  # what analysis sees
NOT_FOR_PCORE = {"ray", "mlflow", "optuna", "pyarrow", "pandas", "scipy", "seaborn", "psutil"}


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package.replace(".", "/")).rglob("*.py"))


def imports(file: Path) -> Iterator[str]:
    """Every module that a file imports, inside functions and for type checks too."""
    package = file.relative_to(ROOT).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            name = ".".join([*start, *([node.module] if node.module else [])])
            yield from (f"{name}.{alias.name}" for alias in node.names)
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) in ("import_module", "importlib.import_module")
            and isinstance(node.args[0], ast.Constant)
        ):
            yield str(node.args[0].value)


def roots(file: Path) -> set[str]:
    return {name.split(".")[0] for name in imports(file)}


def is_script(file: Path) -> bool:
    """Whether a file is a sweep script: these stand on top of everything in `sweeps`."""
    return file.parent == ROOT / "sweeps" and file.read_text().startswith("#!")


def dependencies(package: str) -> set[tuple[str, str]]:
    """(part, part that it imports from) of a package."""
    found = set[tuple[str, str]]()
    depth = package.count(".") + 1
    for file in sources(package):
        parts = file.relative_to(ROOT).with_suffix("").parts
        if parts[depth] in ("__init__", "__main__") or is_script(file):
            continue
        for name in imports(file):
            target = name.split(".")
            if name in OF_PACKAGES or not name.startswith(f"{package}."):
                continue
            if target[depth] != parts[depth]:
                found.add((parts[depth], target[depth]))
    return found


@pytest.mark.parametrize("package", LAYERS)
def test_parts_use_lower_layers_only(package):
    found = dependencies(package)
    layer = {part: number for number, parts in enumerate(LAYERS[package]) for part in parts}
    upward = [(a, b) for a, b in found if layer[b] > layer[a]]
    assert not upward
    assert not [(a, b) for a, b in found if layer[a] == layer[b] and (b, a) in found], "a circle"
    files = [path for path in sources(package) if not is_script(path)]
    parts = {file.relative_to(ROOT).with_suffix("").parts[package.count(".") + 1] for file in files}
    assert parts - {"__init__", "__main__"} == set(layer)


def test_each_package_imports_only_what_it_may():
    for file in sources("pcore"):
        assert not roots(file) & {*NOT_FOR_PCORE, "sweeps", "analysis", "tests"}, file
        assert "matplotlib" not in roots(file) or file.name == "picture.py", file
    for file in sources("sweeps"):
        assert not roots(file) & {"analysis", "tests"}, file
        for framework, owners in FRAMEWORK_FILES.items():
            assert framework not in roots(file) or str(file.relative_to(ROOT)) in owners, file
    for file in sources("analysis"):
        assert not roots(file) & {*FRAMEWORK_FILES, "tests"}, file
        below = [name for name in imports(file) if name.startswith("sweeps")]
        assert all(name.startswith(OF_SWEEPS) for name in below), file
