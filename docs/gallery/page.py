"""The gallery's one helper: a page is what its script compared. ``python docs/gallery/page.py`` runs every script and writes all pages.

A script makes a ``Page``, hands it the published formulas, derives them with the verbs of iclflow and compares. ``python NAME.py`` compares
and prints a line for each comparison; it exits with 1 and the reason at the first that fails. ``python NAME.py --write`` writes NAME.md and
NAME.svg as well.
"""

import re
import runpy
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from iclflow.theory.derivations.conditions import Condition
from iclflow.theory.derivations.derivation import Derivation
from iclflow.theory.derivations.lines import Line
from iclflow.theory.proofs.counterexamples import refutation
from iclflow.theory.typesetting.latex import formula_latex
from iclflow.verify.figures.style import themed
from sympy import Rational

HERE = Path(__file__).parent
PLANTED: int | None = None  # tests set it: the published formula of this number is handed on wrong, and the script must fail


class Page:
    """One published result. ``title`` begins with the authors and the year; ``result`` and ``verdict`` are sentences for the index."""

    def __init__(self, script: str, *, title: str, paper: str, link: str, result: str, verdict: str) -> None:
        self.name, self.verdict = Path(script).stem, verdict
        self.blocks = [f"# {title}", f"{paper}, [{link.partition('://')[2]}]({link}).", f"**Result.** {result}"]
        self.formulas: list[Any] = []
        self.comparisons: list[tuple[str, str]] = []
        self.picture: Any = None

    # What the page shows

    def text(self, markdown: str) -> None:
        """A paragraph, or several."""
        self.blocks.append("\n".join(line.strip() for line in markdown.strip().splitlines()))

    def published(self, where: str, left: Any, formula: Any, *, wrong: Any = None) -> Any:
        """Show a formula as it is published, and hand it on to be compared. ``wrong``: what a test plants, by default 1.01 times it."""
        self.blocks.append(f"**Published**, {where}:\n\n$$\n{_latex(left)} = {_latex(formula)}\n$$")
        self.formulas.append(formula)
        if len(self.formulas) - 1 != PLANTED:
            return formula
        return Rational(101, 100) * formula if wrong is None else wrong

    def derived(self, derivation: Any, reason: str) -> None:
        """Show the lines of a derivation, each of which the judge has passed."""
        rows = re.sub(r"\\(begin|end)\{align\*\}", "", derivation.latex()).strip()
        self.blocks.append(f"**Derived**: {reason}\n\n$$\n\\begin{{aligned}}\n{rows}\n\\end{{aligned}}\n$$")

    def figure(self, picture: Any, caption: str) -> None:
        """The page's picture: theory over simulation."""
        self.picture = picture
        self.blocks.append(f"![{re.sub(r'[$*`]', '', caption)}]({self.name}.svg)\n\n*{caption}*")

    # Comparisons: each ends the script with 1 if it fails

    def exact(self, what: str, left: Any, right: Any, *conditions: Condition, where: Mapping[Any, Any] | None = None) -> None:
        """Two formulas are the same function of all their letters, by the judge of derivations: a proof, or 40 digits at random points.

        ``where`` = {letter: formula} says what letters stand for.
        """
        line = _line(what, left, right, conditions, where)
        verdict = line.verify()
        self._note(
            what, {"exact": "exact", "numeric": "at random points, 40 digits"}.get(verdict.status), lambda: refutation(line, verdict)
        )

    def close(self, what: str, measured: Any, expected: Any, tolerance: float) -> None:
        """Numbers agree up to a tolerance, relative to the largest expected one."""
        measured, expected = np.asarray(measured, float), np.asarray(expected, float)
        distance = float(np.max(np.abs(measured - expected)) / np.max(np.abs(expected)))
        self._note(
            what, f"to {tolerance:.0e}" if distance <= tolerance else None, lambda: f"off by {distance:.3g}, over {tolerance:.0e}", distance
        )

    def sampled(self, what: str, measured: Any, errors: Any, expected: Any) -> None:
        """Means of samples agree with theory: within five of their standard errors, all of them."""
        distance = float(np.max(np.abs(np.asarray(measured) - np.asarray(expected)) / np.asarray(errors)))
        self._note(what, "within 5 standard errors" if distance <= 5 else None, lambda: f"off by {distance:.1f} standard errors", distance)

    def below(self, what: str, smaller: Any, larger: Any) -> None:
        """An inequality, at every setting that was drawn."""
        slack = np.asarray(larger, float) - np.asarray(smaller, float)
        held = ("holds" if slack.size == 1 else f"holds at {slack.size:,} settings") if np.all(slack >= 0) else None
        self._note(what, held, lambda: f"fails by {-slack.min():.3g} at {np.sum(slack < 0)} of {slack.size} settings", float(slack.min()))

    def rate(self, what: str, sizes: Any, errors: Any, exponent: float, tolerance: float) -> None:
        """Errors fall as a power of a size: the slope between logarithms."""
        slope = float(np.polyfit(np.log(np.asarray(sizes, float)), np.log(np.asarray(errors, float)), 1)[0])
        close = abs(slope - exponent) <= tolerance
        self._note(
            what, f"fitted power {exponent:g}, to {tolerance:g}" if close else None, lambda: f"power {slope:.3f}, not {exponent:g}", slope
        )

    def differs(self, what: str, left: Any, right: Any, *conditions: Condition, where: Mapping[Any, Any] | None = None) -> None:
        """A counterexample: two formulas that are not the same function. For a formula that is printed wrong, beside the right one."""
        verdict = _line(what, left, right, conditions, where).verify()
        self._note(what, None if verdict else "differs, at a point that the judge found", lambda: "the two sides agree")

    def _note(self, what: str, how: str | None, problem: Callable[[], str], number: float | None = None) -> None:
        if how is None:
            raise SystemExit(f"{self.name}: {what}: {problem()}")
        print(f"  {what}: {how}" + (f" ({number:.2g})" if number is not None else ""))
        self.comparisons.append((what, how))

    # The page

    def markdown(self) -> str:
        rows = "\n".join(f"| {what.replace('|', chr(92) + '|')} | {how} |" for what, how in self.comparisons)
        ends = (
            f"**Verdict.** {self.verdict}",
            f"## What was compared\n\n| what | how |\n| --- | --- |\n{rows}",
            f"## The script\n\n`python docs/gallery/{self.name}.py`\n\n```{{literalinclude}} {self.name}.py\n:language: python\n```",
        )
        return "\n\n".join((*self.blocks, *ends)) + "\n"

    def write(self) -> None:
        """Say that all comparisons held and, with --write, write the page and its picture."""
        print(f"{self.name}: {len(self.comparisons)} comparisons hold")
        if "--write" in sys.argv:
            (HERE / f"{self.name}.md").write_text(self.markdown(), encoding="utf-8")
            with themed():
                self.picture.savefig(HERE / f"{self.name}.svg", metadata={"Date": None})


def _line(what: str, left: Any, right: Any, conditions: tuple, where: Mapping[Any, Any] | None) -> Line:
    definitions = (Line(letter, ":=", formula) for letter, formula in (where or {}).items())
    return Derivation.by(*definitions, Line(left, "=", right, what, conditions=conditions)).lines[-1]


def _latex(side: Any) -> str:
    return side if isinstance(side, str) else formula_latex(side)


def scripts() -> list[Path]:
    """The scripts, by year and author: NAME is author_year."""
    return sorted(HERE.glob("*_[0-9][0-9][0-9][0-9].py"), key=lambda path: (path.stem[-4:], path.stem))


def index() -> str:
    """The list of pages, read off the pages."""
    rows, names = [], [path.stem for path in scripts()]
    for name in names:
        page = (HERE / f"{name}.md").read_text("utf-8")
        title, result, verdict = (re.search(start + "(.*)", page)[1] for start in (r"# ", r"\*\*Result\.\*\* ", r"\*\*Verdict\.\*\* "))
        rows.append(f"| [{title}]({name}.md) | {result} | {verdict} |")
    return (HERE / "index.txt").read_text("utf-8").format(rows="\n".join(rows), names="\n".join(names))


def main() -> None:
    sys.argv.append("--write")
    for script in scripts():
        runpy.run_path(str(script), run_name="__main__")
    (HERE / "index.md").write_text(index(), encoding="utf-8")


if __name__ == "__main__":
    main()
