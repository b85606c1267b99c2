"""Every script of the gallery runs, its page is the one on disk, and it fails when a published formula is off by a factor."""

import re
import runpy
import sys
from pathlib import Path

import pytest
from iclflow.verify.evidence.page import mathml

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
SLOW = (  # scripts of more than about five seconds
    *("ahn_2023", "gatmiry_2024", "lu_2025", "mahankali_2024", "mainali_2025"),
    *("raventos_2023", "wu_2024", "zhang_2024"),
)


@pytest.fixture(scope="module")
def helper():
    sys.path.insert(0, str(GALLERY))
    try:
        import page

        yield page
    finally:
        sys.path.remove(str(GALLERY))


def scripts():
    found = sorted(path.stem for path in GALLERY.glob("*_[0-9]*.py"))
    return [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in found]


def run(name, monkeypatch):
    monkeypatch.setattr(sys, "argv", [f"{name}.py"])
    return runpy.run_path(str(GALLERY / f"{name}.py"), run_name="__main__")["page"]


@pytest.mark.parametrize("name", scripts())
def test_a_page_is_what_its_script_compared(helper, name, monkeypatch):
    page = run(name, monkeypatch)
    assert page.markdown() == (GALLERY / f"{name}.md").read_text("utf-8"), f"run python docs/gallery/{name}.py --write"
    assert page.comparisons
    assert (GALLERY / f"{name}.svg").stat().st_size < 250_000
    for number in range(len(page.formulas)):
        monkeypatch.setattr(helper, "PLANTED", number)
        with pytest.raises(SystemExit, match=name):
            run(name, monkeypatch)


@pytest.mark.parametrize("page", sorted(GALLERY.glob("*.md")), ids=lambda path: path.stem)
def test_the_site_can_set_every_formula(page):
    prose = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    displayed = re.findall(r"\$\$(.+?)\$\$", prose, flags=re.DOTALL)
    for formula in (*displayed, *re.findall(r"\$([^$]+)\$", re.sub(r"\$\$.+?\$\$", "", prose, flags=re.DOTALL))):
        assert "<math" in mathml(formula)


def test_the_index_lists_the_pages(helper):
    assert helper.index() == (GALLERY / "index.md").read_text("utf-8"), "run python docs/gallery/page.py"
    assert {path.stem for path in GALLERY.glob("*.md")} == {path.stem for path in helper.scripts()} | {"index"}


def test_a_comparison_that_fails_says_where(helper):
    from sympy import symbols

    x = symbols("x", positive=True)
    page = helper.Page("x_2000.py", title="X (2000)", paper="X", link="https://x.org", result="X.", verdict="X.")
    with pytest.raises(SystemExit, match=r"x_2000: squares: .* fails at x = "):
        page.exact("squares", x**2, 2 * x)
    with pytest.raises(SystemExit, match=r"off by 0\.5, over 1e-03"):
        page.close("numbers", [1.0, 1.0], [1.0, 2.0], 1e-3)
    with pytest.raises(SystemExit, match=r"off by 10\.0 standard errors"):
        page.sampled("means", [1.0, 2.0], [0.1, 0.1], [1.0, 1.0])
    with pytest.raises(SystemExit, match="fails by 1 at 1 of 2 settings"):
        page.below("bound", [1.0, 3.0], [2.0, 2.0])
    with pytest.raises(SystemExit, match=r"power -2\.000, not -1"):
        page.rate("rate", [1, 2, 4], [16, 4, 1], -1, 0.1)
    with pytest.raises(SystemExit, match="the two sides agree"):
        page.differs("same", x * x, x**2)
    assert not page.comparisons
