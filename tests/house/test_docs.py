"""Every block of code in the README and in the documentation is run; links between pages lead somewhere."""

import contextlib
import doctest
import io
import re
import shlex
from pathlib import Path

import pytest
from iclflow.verify.cli.main import main
from iclflow.verify.cli.parser import build

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```([^`\n]*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
# These take from seconds to a minute and have tests of their own: here their arguments must be what the command line accepts.
PARSED_ONLY = ("check", "train", "figure", "sweep", "explore")
IN_SHELL = ("python3 -m venv", ".venv/bin/", "pip install", "git clone", "jupyter lab", "sphinx-build")


def blocks(page: Path, *languages: str) -> list[str]:
    return [code for language, code in BLOCK.findall(page.read_text("utf-8")) if language in languages]


def pages(*languages: str) -> list[Path]:
    return [page for page in PAGES if blocks(page, *languages)]


def named(paths):
    return pytest.mark.parametrize("page", paths, ids=lambda path: path.name)


def test_the_guide_is_there():
    assert {"index.md", "install.md", "tour.md", "concepts.md", "conventions.md", "errors.md"} <= {p.name for p in PAGES}


def test_no_block_goes_unrun():
    """Each block is of a language that one of the tests below runs, or a directive of the site."""
    known = {"python", "pycon", "shell", "bash", "sh", "", "bibtex", "text"}  # text: output, which test_readme.py compares
    languages = {language for page in PAGES for language, _ in BLOCK.findall(page.read_text("utf-8"))}
    assert {language for language in languages if not language.startswith("{")} <= known


@named(pages("python"))
def test_python_blocks_run_in_order(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        for number, code in enumerate(blocks(page, "python"), 1):
            exec(compile(code, f"{page.name}, block {number}", "exec"), names)
    assert printed.getvalue()


@named(pages("pycon"))
def test_sessions_give_what_they_show(page):
    runner = doctest.DocTestRunner()
    examples = doctest.DocTestParser().get_doctest("\n".join(blocks(page, "pycon")), {}, page.name, str(page), 0)
    assert examples.examples
    runner.run(examples)
    assert runner.summarize().failed == 0


def commands() -> list:
    """(page, line); the export of everything is made anew for each, and slow."""
    lines = []
    for page in PAGES:
        for code in blocks(page, "shell", "bash", "sh", ""):
            lines += [(page, line) for line in code.splitlines() if line.strip() and not line.startswith("#")]
    return [pytest.param(page, line, marks=[pytest.mark.slow] * line.startswith("iclflow export --output")) for page, line in lines]


@pytest.mark.parametrize(("page", "line"), commands(), ids=lambda value: getattr(value, "name", value))
def test_commands_work(page, line, monkeypatch, tmp_path, capsys):
    if line.startswith(IN_SHELL):
        return  # installation, which CI does line by line
    words = shlex.split(line, comments=True)
    assert words[0] == "iclflow", f"{page.name}: {line} is run by nobody"
    monkeypatch.chdir(tmp_path)
    if words[1] in PARSED_ONLY:
        assert build().parse_args(words[1:]).command == words[1]
        return
    if "--help" in words:
        with pytest.raises(SystemExit, match=r"^0$"):
            main(words[1:])
    else:
        assert main(words[1:]) == 0
    wanted = words[words.index("--output") + 1] if "--output" in words else None
    assert (tmp_path / wanted).stat().st_size if wanted else capsys.readouterr().out


def test_links_between_pages_lead_somewhere():
    broken = []
    for page in PAGES:
        text = BLOCK.sub("", page.read_text("utf-8"))
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            if not target.startswith(("http://", "https://", "mailto:")):
                path = page.parent / target
                copied = ROOT / target  # the site shows the notebooks of the folder beside docs
                if not path.exists() and not (target.startswith("notebooks/") and copied.exists()):
                    broken.append(f"{page.name}: {target}")
    assert not broken
