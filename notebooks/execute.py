"""Execute the notebooks: ``python notebooks/execute.py [NAME.py ...]`` writes each NAME.ipynb beside its source, with outputs.

The text files are the source and what is reviewed; a notebook holds the same cells and small outputs. Nothing in the files
depends on when or how fast they ran.
"""

import sys
import time
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent
SECONDS = 60  # a notebook is not to take longer
WIDGET = "application/vnd.jupyter.widget-view+json"  # sliders come to life when their cell runs: nothing of them is kept


def sources() -> list[Path]:
    """The text of every notebook, in order."""
    numbered = (path for path in FOLDER.glob("*.py") if path.name[0].isdigit())
    return sorted(numbered, key=lambda path: int(path.name.partition("_")[0]))


def read(source: Path) -> nbformat.NotebookNode:
    """The notebook of a text file, without outputs, its cells numbered."""
    notebook = jupytext.read(source)
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
    return notebook


def execute(source: Path, seconds: int = SECONDS) -> nbformat.NotebookNode:
    """Run a notebook in a clean kernel of this Python; raises ``CellExecutionError`` where a cell fails."""
    notebook = read(source)
    client = NotebookClient(
        notebook,
        timeout=seconds,
        kernel_name="python3",
        resources={"metadata": {"path": str(FOLDER)}},
        record_timing=False,
    )
    client.execute()
    for name in ("language_info", "widgets"):
        notebook.metadata.pop(name, None)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.metadata.pop("execution", None)
            cell.outputs = [
                output
                for output in cell.outputs
                if WIDGET not in output.get("data", {})
            ]
    return notebook


if __name__ == "__main__":
    for path in [FOLDER / Path(name).name for name in sys.argv[1:]] or sources():
        began = time.perf_counter()
        nbformat.write(execute(path), path.with_suffix(".ipynb"))
        print(f"{path.stem}: {time.perf_counter() - began:.1f} s")
