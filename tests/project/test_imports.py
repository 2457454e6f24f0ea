"""The layers of each package, and which may use which: analysis -> sweeps.engine.store -> pcore.

`LAYERS` lists the parts (folders and single modules) of each package from the lowest layer up; a
part may import those of its own and lower layers, without a circle. Each framework is imported by
one or two files. `pytest -s` prints every dependency.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("pcore", "sweeps", "analysis")
LAYERS = {
    "pcore": (
        ("registry", "vocab"),
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
        ("trial", "price", "naming", "changes"),
        ("plan",),
        ("executors",),
        ("options",),
        ("launch",),
        ("search",),
    ),
    "sweeps": (("engine", "tables"), ("baseline", "commands", "hooks")),
    "analysis": (
        ("load",),
        ("statistics", "rows"),
        ("tables",),
        ("trace", "settings", "figures"),
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
NOT_FOR_PCORE = {"ray", "mlflow", "optuna", "pyarrow", "pandas", "scipy", "seaborn", "psutil"}


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imports(file: Path) -> Iterator[tuple[str, bool]]:
    """(module, is it imported inside a function) of every import, type-checking ones included."""
    package = file.relative_to(ROOT).with_suffix("").parts[:-1]

    def visit(node: ast.AST, inside: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from ((alias.name, inside) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                start = package[: len(package) - child.level + 1] if child.level else ()
                name = ".".join([*start, *([child.module] if child.module else [])])
                yield from ((f"{name}.{alias.name}", inside) for alias in child.names)
            elif (
                isinstance(child, ast.Call)
                and ast.unparse(child.func) in ("import_module", "importlib.import_module")
                and isinstance(child.args[0], ast.Constant)
            ):
                yield str(child.args[0].value), inside
            is_function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from visit(child, inside or is_function)

    yield from visit(ast.parse(file.read_text()), False)


def roots(file: Path) -> set[str]:
    return {name.split(".")[0] for name, _ in imports(file)}


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


def is_script(file: Path) -> bool:
    """Whether a file is a sweep script: these stand on top of everything in `sweeps`."""
    return file.parent == ROOT / "sweeps" and file.suffix == ".py" and _can_be_run(file)


def _can_be_run(file: Path) -> bool:
    return file.read_text().startswith("#!")


def dependencies(package: str) -> Counter[tuple[str, str]]:
    """(part, part that it imports from) of a package, with the number of imports."""
    found: Counter[tuple[str, str]] = Counter()
    depth = package.count(".") + 1
    for file in sources(package.replace(".", "/")):
        parts = file.relative_to(ROOT).with_suffix("").parts
        if parts[depth] in ("__init__", "__main__") or is_script(file):
            continue
        for name, _ in imports(file):
            target = name.split(".")
            if name in OF_PACKAGES or not name.startswith(f"{package}."):
                continue
            if target[depth] != parts[depth]:
                found[parts[depth], target[depth]] += 1
    return found


def layers(package: str) -> dict[str, int]:
    """The layer of every part of a package, 0 = the lowest."""
    return {part: layer for layer, parts in enumerate(LAYERS[package]) for part in parts}


@pytest.mark.parametrize("package", LAYERS)
def test_parts_use_lower_layers_only(package):
    found, layer = dependencies(package), layers(package)
    for (part, target), count in sorted(found.items()):
        print(f"{package}: {part} -> {target} ({count})")
    upward = [(a, b) for a, b in found if layer[b] > layer[a]]
    assert not upward
    assert not [(a, b) for a, b in found if layer[a] == layer[b] and (b, a) in found], "a circle"


@pytest.mark.parametrize("package", LAYERS)
def test_every_part_has_its_layer_and_says_what_belongs_there(package):
    folder = ROOT / package.replace(".", "/")
    found = {
        path.stem
        for path in folder.iterdir()
        if (path.suffix == ".py" and not is_script(path)) or (path / "__init__.py").exists()
    }
    assert found - {"__init__", "__main__"} == set(layers(package))
    for path in folder.iterdir():
        if (path / "__init__.py").exists():
            assert ast.get_docstring(ast.parse((path / "__init__.py").read_text())), path


@pytest.mark.parametrize("file", sources("pcore"), ids=name_of)
def test_pcore_knows_no_framework_and_nothing_above_it(file):
    assert not roots(file) & (NOT_FOR_PCORE | {"sweeps", "analysis", "tests"})
    for name, inside in imports(file):
        if name.split(".")[0] == "matplotlib":
            assert file.name == "picture.py"
            assert inside or _only_for_types(file, name)


def _only_for_types(file: Path, name: str) -> bool:
    """Whether a module stands below `if TYPE_CHECKING:`."""
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            text = ast.unparse(node)
            module, _, leaf = name.rpartition(".")
            return f"from {module} import {leaf}" in text or f"import {name}" in text
    return False


@pytest.mark.parametrize("file", sources("sweeps"), ids=name_of)
def test_frameworks_have_their_files_and_sweeps_do_not_analyse(file):
    assert not roots(file) & {"analysis", "tests"}
    for framework, owners in FRAMEWORK_FILES.items():
        if framework in roots(file):
            assert name_of(file) in owners


@pytest.mark.parametrize("file", sources("analysis"), ids=name_of)
def test_analysis_reads_parquet_only(file):
    assert not roots(file) & {"ray", "mlflow", "optuna", "tests"}
    for name, _ in imports(file):
        if name.split(".")[0] == "sweeps":
            assert name.startswith(("sweeps.engine.store.", "sweeps.tables.")), name


def test_every_way_to_import_is_seen(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    file = tmp_path / "pcore" / "deep" / "x.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "import a.b\nfrom c import d\nfrom . import e\nfrom ..f import g\n"
        "def h():\n    import i\n    importlib.import_module('j.k')\n"
    )
    assert dict(imports(file)) == {
        "a.b": False,
        "c.d": False,
        "pcore.deep.e": False,
        "pcore.f.g": False,
        "i": True,
        "j.k": True,
    }


def test_an_upward_dependency_is_seen(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    for part, line in {"tasks": "from pcore.model.x import y\n", "model": ""}.items():
        (tmp_path / "pcore" / part).mkdir(parents=True)
        (tmp_path / "pcore" / part / "x.py").write_text(line)
    with pytest.raises(AssertionError):
        test_parts_use_lower_layers_only("pcore")
