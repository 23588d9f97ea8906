"""What is shown runs: the examples of docs/python.md, docstrings, the notebook; and types hold."""

from __future__ import annotations

import doctest
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
import windlass
from conftest import ROOT


@pytest.fixture(autouse=True)
def without_windows(monkeypatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/python.md").read_text()
    names: dict[str, object] = {}
    blocks = list(re.finditer(r"^```python\n(.*?)^```", page, re.M | re.S))
    assert len(blocks) > 5
    for block in blocks:
        line = page[: block.start(1)].count("\n")
        exec(compile("\n" * line + block[1], "docs/python.md", "exec"), names)
    assert (tmp_path / "two-flows.svg").stat().st_size > 10_000


@pytest.mark.parametrize("module", ["_run", "_sweep", "_scenario", "_algorithm"])
def test_the_examples_of_docstrings_run(module: str, monkeypatch) -> None:
    monkeypatch.chdir(ROOT)
    failed, _ = doctest.testmod(__import__(f"windlass.{module}", fromlist=["_"]))
    assert failed == 0


def test_the_notebook_runs(tmp_path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(ROOT / "python/examples/first-steps.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.get("outputs") for cell in notebook.cells), "clear its outputs before it is committed"
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    done = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": tmp_path}}).execute()
    kinds = [kind for cell in done.cells for out in cell.get("outputs", []) for kind in out.get("data", {})]
    assert "image/png" in kinds


def test_all_that_is_public_has_a_docstring() -> None:
    import windlass.env
    import windlass.plot

    for module in (windlass, windlass.env, windlass.plot):
        assert module.__doc__
        for name, what in vars(module).items():
            is_own = getattr(what, "__module__", "").startswith("windlass") and not name.startswith("_")
            if is_own and (inspect.isclass(what) or inspect.isroutine(what)):
                assert inspect.getdoc(what), f"{module.__name__}.{name}"


def test_types_hold() -> None:
    loose = ["--disable-error-code=import-untyped", "--allow-subclassing-any"]
    checks = [["mypy", "--strict", *loose, "-p", "windlass"], ["mypy.stubtest", "windlass._windlass"]]
    for words in checks:
        done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, cwd="/")
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_version_is_that_of_the_tree() -> None:
    from importlib.metadata import version

    release = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)
    assert release and version("windlass") == release[1]


def test_packages_have_the_versions_that_the_program_has() -> None:
    def versions(lock: Path) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for name, number in re.findall(r'^name = "(.*)"\nversion = "(.*)"', lock.read_text(), re.M):
            found.setdefault(name, set()).add(number)
        return found

    program, ours = versions(ROOT / "Cargo.lock"), versions(ROOT / "crates/windlass-python/Cargo.lock")
    both = program.keys() & ours.keys()
    assert len(both) > 30
    assert [name for name in both if not ours[name] & program[name]] == []
