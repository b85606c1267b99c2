"""The notebooks: paired with their text, with outputs that are small and show no error; executed in a clean kernel when slow tests run."""

import importlib.util
import re
from pathlib import Path

import nbformat
import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
LARGEST = 350_000  # bytes of a notebook with its outputs


def _load():
    spec = importlib.util.spec_from_file_location("execute_notebooks", FOLDER / "execute.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


notebooks = _load()
SOURCES = notebooks.sources()
each = pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)


def test_the_notebooks_are_numbered_from_one():
    numbers = [int(path.stem.partition("_")[0]) for path in SOURCES]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 8


@each
def test_the_notebook_has_the_cells_of_its_text(source):
    written = nbformat.read(source.with_suffix(".ipynb"), as_version=4)
    expected = notebooks.read(source)
    assert [(cell.cell_type, cell.source) for cell in written.cells] == [(cell.cell_type, cell.source) for cell in expected.cells]


@each
def test_outputs_are_committed_small_and_without_errors(source):
    path = source.with_suffix(".ipynb")
    assert path.stat().st_size < LARGEST
    outputs = [output for cell in nbformat.read(path, as_version=4).cells for output in cell.get("outputs", ())]
    assert {output.output_type for output in outputs} <= {"execute_result", "stream", "display_data"}
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert not any(output.get("name") == "stderr" for output in outputs)


@each
def test_the_first_cell_states_a_claim_and_its_equations(source):
    first = notebooks.read(source).cells[0].source
    assert first.startswith("# ")
    assert "**Claim.**" in first
    numbers = re.findall(r"\((\d+|[A-Z]\d*)[^)]*\)", first)
    assert numbers, "no equation number in the claim"


@each
def test_the_notebook_ends_by_checking_itself(source):
    assert "assert" in notebooks.read(source).cells[-1].source


@each
def test_logic_is_imported_not_defined(source):
    assert not re.search(r"^\s*(def|class) |lambda ", source.read_text(), flags=re.MULTILINE)


@pytest.mark.slow  # each starts a kernel and integrates flows: 5 to 25 s, all of them about a minute and a half
@each
def test_the_notebook_runs_in_a_clean_kernel(source):
    executed = notebooks.execute(source)
    assert all(cell.execution_count for cell in executed.cells if cell.cell_type == "code")
