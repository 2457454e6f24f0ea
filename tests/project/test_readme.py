"""The examples of README and docs run as printed (own code, rows in pandas); every link of the
documents leads to a file and a heading; every fault has a test that exists.
"""

import ast
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.rows import read_rows
from pcore.cli.own_code import read_template, write_template
from sweeps.commands.catalogue import find_sweep
from sweeps.commands.files import verify_store
from sweeps.engine.launch.cli import main as run_script
from sweeps.engine.store.store import Store

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
GUIDES = README + (ROOT / "docs" / "models.md").read_text()  # both have own code to copy
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "cluster" / "README.md"]
PYTHON_BLOCKS = re.findall(r"```python\n(.*?)```", GUIDES, flags=re.DOTALL)
TEMPLATES = {
    "encoding": "my_encodings:Distance",
    "task": "my_tasks:Base7",
    "attention": "my_attention:Temperature",
    "mixer": "my_mixers:Mean",
}


@pytest.fixture
def own_code(tmp_path, monkeypatch):
    """A folder with the modules of the guides, as a user would have them."""
    monkeypatch.chdir(tmp_path)
    for kind, name in TEMPLATES.items():
        write_template(kind, name)
    Path("my_sweep.py").write_text(PYTHON_BLOCKS[1])
    return tmp_path


def run(folder: Path, *words: str) -> str:
    """What Python prints there."""
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", TEMPLATES.values())
def test_the_worked_examples_pass_their_checks_and_train(own_code, name):
    lines = [line.strip() for line in GUIDES.splitlines() if name in line]
    starts = ("pcore check-", "pcore train ", "python sweeps/", "python -m sweeps run ")
    commands = (shlex.split(line, comments=True) for line in lines if line.startswith(starts))
    check, (program, *words) = commands
    assert " checks passed" in run(own_code, "-m", *check)
    if program == "pcore":
        printed = run(own_code, "-m", program, *words, "--optim.num_steps", "20")
        assert "exact match" in printed.lower()
        return
    script, *flags = words if words[0] != "-m" else [f"sweeps/{words[3]}.py", *words[4:]]
    printed = run(own_code, str(ROOT / script), *flags)
    label = flags[flags.index("--add") + 1].partition("=")[0] if "--add" in flags else name
    rows = [line for line in printed.splitlines() if re.search(r"  \d+/\d+  ", line)]
    assert [row for row in rows if label in row], rows


@pytest.mark.parametrize("kind", TEMPLATES)
def test_the_guides_show_what_new_writes(kind):
    text, class_name = read_template(kind)
    shown = text.partition("    # Below:")[0].rstrip() + "\n"  # of a task its upper half
    assert shown in PYTHON_BLOCKS
    assert f"{kind} {TEMPLATES[kind]}" in README
    assert TEMPLATES[kind].endswith(f":{class_name}")


def test_the_example_sweep_runs_code_that_is_all_its_own_once(own_code, monkeypatch, capsys):
    """Encoding, task, attention and mixer of the guides; their rows are kept and found again."""
    monkeypatch.syspath_prepend(str(own_code))
    words = ["--only", "own", "--seeds", "1", "--scale", "smoke", "--name", "mine"]
    words += ["--set", "task.name=my_tasks:Base7", "--set", "model.num_layers=2"]
    words += ["--set", "model.attention=my_attention:Temperature"]
    words += ["--set", "model.mixer=my_mixers:Mean,attention"]
    words += ["--executor", "inline", "--no-mlflow", "--no-report", "--results", "results"]
    for to_run in ("1 to run", "0 to run"):
        assert run_script(find_sweep("my_sweep.py"), words) == 0
        assert to_run in capsys.readouterr().out
    (row,) = Store("results").load(record="trial").to_pylist()
    assert row["position.encoding"] == "my_encodings:Distance"
    assert verify_store("results") == 0


@pytest.mark.slow  # needs what only `make test-slow` installs
def test_the_query_in_duckdb_gives_the_medians_of_the_table(monkeypatch):
    import duckdb

    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "running.md").read_text()
    (query,) = re.findall(r"```sql\n(.*?)```", page, flags=re.DOTALL)
    rows = read_rows("results/published/laptop", "depth_ablation", scale="laptop")
    tested = rows[rows["range"] == "test"].groupby(["cell", "length"])["exact_match"]
    wanted = {key: (found.count(), pytest.approx(found.median())) for key, found in tested}
    assert {(c, n): (runs, m) for c, n, runs, m in duckdb.sql(query).fetchall()} == wanted
    assert len(wanted) > 20


def test_the_notebook_goes_from_published_rows_to_an_own_arm_and_latex(
    tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "docs" / "rows_in_hand.py"))
    printed = capfd.readouterr().out
    assert "coupling, 2 layers" in printed
    assert "4 trials, 0 finished, 4 to run" in printed
    assert r"\begin{tabular}" in printed
    assert (tmp_path / "results" / "notebook" / "own.png").is_file()


def headings(document: Path) -> set[str]:
    """The anchors of a Markdown file, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", document.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(document):
    for link in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        if link.startswith(("http://", "https://")):
            continue
        file, _, heading = link.partition("#")
        target = document.parent / file if file else document
        assert target.exists(), link
        assert not heading or heading in headings(target), link


def test_every_fault_has_a_test_that_exists():
    rows = [
        line
        for line in (ROOT / "docs" / "faults.md").read_text().splitlines()
        if line.startswith("| ") and not line.startswith("| fault |")
    ]
    assert len(rows) > 20
    for row in rows:
        nodes, file = re.findall(r"`([\w./]+)::(\w+)`", row), ""
        assert nodes, row
        for path, name in nodes:
            file = file if path == "..." else path
            tree = ast.parse((ROOT / file).read_text())
            assert name in {getattr(node, "name", "") for node in tree.body}, f"{file}::{name}"
