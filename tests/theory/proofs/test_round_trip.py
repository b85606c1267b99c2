"""What this project exports, it reads back: the sides of every line of the registry, and how many are not read, by reason."""

from collections import Counter

import pytest
import sympy
from iclflow.theory.algebra.polynomial import TracePolynomial
from iclflow.theory.algebra.syntax import Unreadable
from iclflow.theory.calculus.equality import equal
from iclflow.theory.derivations.conditions import Condition
from iclflow.theory.derivations.derivation import RELATIONS_LATEX, side_latex
from iclflow.theory.derivations.heads import Head, MatrixExpectation, MatrixGradient, ScalarExpectation, ScalarGradient, as_sympy
from iclflow.theory.derivations.lines import Line
from iclflow.theory.derivations.matrix_forms import has_forms
from iclflow.theory.equations import equation, equations
from iclflow.theory.proofs.judging import judged
from iclflow.theory.proofs.meaning import read_latex
from iclflow.theory.typesetting.latex import formula_latex
from sympy import Basic, Derivative, Integral, Limit, MatrixBase, Sum, Trace
from sympy.core.function import AppliedUndef
from sympy.tensor.indexed import Indexed

pytestmark = pytest.mark.slow  # every line of the registry, twice

READ = (ScalarExpectation, MatrixExpectation, ScalarGradient, MatrixGradient)


def kind(side) -> str:
    """Of which kind is a side? Polynomials, rational functions, and those with an expectation or a gradient, are read back."""
    if side is None or isinstance(side, Line | Condition | tuple):
        return "statements"
    if isinstance(side, TracePolynomial):
        return "polynomial"
    formula = sympy.sympify(side)
    if isinstance(formula, MatrixBase) or has_forms(formula):
        return "explicit or block matrices"
    if heads := [one for one in sympy.preorder_traversal(formula) if isinstance(one, Head)]:
        if not all(isinstance(one, READ) for one in heads) or any(hasattr(one, "given") and one.args[1].value for one in heads):
            return "velocities, second variations, laws of their own"
        return "operations on functions" if formula.atoms(sympy.Function, AppliedUndef, Indexed, Sum) else "operation"
    if formula.has(Sum, Integral, Limit, Derivative) or formula.atoms(Indexed, AppliedUndef):
        return "sums, integrals, limits, functions"
    try:
        TracePolynomial(formula)
    except ValueError:
        rational = not formula.has(Trace) and formula.is_rational_function()
        return "rational" if rational else "not rational"
    return "polynomial"


def outcome(side, latex: str) -> str:
    try:
        again = read_latex(latex, as_sympy(side).free_symbols)
    except Unreadable as problem:
        return f"unread: {problem}"
    if isinstance(side, Basic) and any(isinstance(one, Head) for one in sympy.preorder_traversal(side)):
        verdict = Line(again, "=", side).verify()
        same = verdict.status in ("exact", "numeric") or (verdict.status == "sampled" and verdict.residual < 1e-9)  # the same draws
        return "read" if same else f"another formula: {again}"
    if again == 0 and (side == 0 or isinstance(side, sympy.ZeroMatrix)):
        return "read"
    same = TracePolynomial(again) == side if isinstance(side, TracePolynomial) else equal(again, side)
    return "read" if same else f"another formula: {again}"


def test_every_line_of_the_registry_is_read_back():
    found, seen, wrong = Counter(), set(), []
    for entry in equations():
        for line in entry.lines:
            for side in (line.left, line.right):
                of_kind = kind(side)
                if of_kind not in ("polynomial", "rational", "operation"):
                    found[of_kind] += 1
                    continue
                latex = formula_latex(side)
                if latex in seen:
                    continue
                seen.add(latex)
                result = outcome(side, latex)
                found[of_kind if result == "read" else f"{of_kind}, not read"] += 1
                if result != "read":
                    wrong.append((entry.number, latex, result, of_kind))
    # an identity whose size its LaTeX does not show
    assert [(number, latex) for number, latex, _, of_kind in wrong if of_kind != "operation"] == [("44", r"\alpha \boldsymbol{I}")]
    # a letter whose value, with what is random, stands in an earlier line; SymPy's own square of a product of vectors
    reasons = ("does not hold", "a power needs a square matrix", "a derivative is in one letter", "nothing in this expectation is random")
    odd = [case for case in wrong if case[-1] == "operation" and not any(one in case[2] for one in reasons)]
    assert odd == []
    assert found["polynomial"] + found["rational"] >= 1000, found
    assert found["operation"] >= 80, found
    assert found["operation, not read"] <= 80, found
    print(dict(found))


FORCE = next(f"{side_latex(one.left)} = {side_latex(one.right)}" for one in equation("V3-query").lines if "force" in one.reason)


def test_no_line_of_the_registry_fails_without_its_conditions(tmp_path):
    """Each alone, as LaTeX, without a word on its letters: a true line may be unread, but it fails in one meaning only."""
    lines = [line for entry in equations() for line in entry.lines]
    latex = {f"{side_latex(one.left)} {RELATIONS_LATEX[one.relation]} {side_latex(one.right)}" for one in lines}
    found = Counter()
    for i, one in enumerate(sorted(latex)):
        path = tmp_path / f"{i}.tex"
        path.write_text(f"\\[ {one} \\]")
        for line in judged(path):
            found[line.status] += 1
            if (
                line.status == "fails"
            ):  # what nothing in the line says: tokens with independent entries, or the map at which a force vanishes
                assert r"\frac{N \lambda^{2} + T \lambda - \lambda^{2}}{N}" in one or one == FORCE, line
                assert line.reason.endswith("as in the paper")
    assert found["fails"] <= 2, found
    assert found["exact"] + found["numeric"] >= 80, found
