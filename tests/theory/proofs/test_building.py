"""Derivations built by verbs: every line is judged as it is added, and the same verbs play again elsewhere."""

import pytest
from iclflow.theory import E, Gaussian, SampleCovariance, derive
from iclflow.theory.derivations.lines import Line
from iclflow.theory.notation import B, D, Lambda, Lambda_hat, M, N, T, beta, lambda_, matrix, symmetric_matrix, w, x_q, y_q
from sympy import Rational, Symbol, Trace, exp, oo

LOSS = E((y_q - beta.T * B * x_q) ** 2)
FORCE = -2 * (Lambda**2 - M * B * Lambda)
b = Symbol("b", real=True)
u = Symbol("u", positive=True)
A = matrix("A", D)
SIGMA = symmetric_matrix("Sigma_w", D)


@pytest.fixture(scope="module")
def force():
    return derive(LOSS).expect().fold(M, E(Lambda_hat**2)).gradient(B).factor()


def test_the_force_is_derived(force):
    whole = force.claim(FORCE)
    assert all(isinstance(line, Line) for line in whole.lines)
    assert [verdict.status for verdict in whole.check()] == ["exact", "assumed", "exact", "exact", "exact", "exact"]
    assert [verdict.status for verdict in whole.check(seed=3)] == ["exact", "assumed", "exact", "exact", "exact", "exact"]
    assert whole.right == FORCE


def test_a_false_claim_names_the_point_and_the_amount(force):
    with pytest.raises(ValueError, match=r"claim: .* fails at D = \d, .*B = .*, by 0\.\d+") as caught:
        force.claim(-2 * (Lambda**2 - B * M * Lambda))
    assert all(f"{name} = [[" in str(caught.value) for name in ("B", "M", "Lambda"))


def test_it_shows_as_aligned_latex(force):
    assert force.latex().startswith("\\begin{align*}\n")
    assert force.latex().count("&=") == 4
    assert "&:=" in force.latex()
    assert force._repr_latex_().startswith("$\\displaystyle \\begin{aligned}")
    assert "\\quad (N \\to \\infty)" in derive(E(Lambda_hat**2)).expect().limit(N).latex()
    assert "Factored" in str(force)
    assert derive(LOSS).latex().count("&=") == 1  # nothing but the start


def test_the_same_verbs_under_other_laws(force):
    law = Gaussian(w, covariance=SIGMA)
    with pytest.raises(ValueError, match=r"rederive: line 2 no longer holds: fold: .* is no part of"):
        force.rederive(laws=[law])
    general = derive(LOSS).expect().fold(M, E(beta * beta.T)).gradient(B)
    other = general.rederive(laws=[law])
    assert other.right == -2 * Lambda * SIGMA * Lambda + 2 * M * B * Lambda
    assert all(other.check())
    with pytest.raises(ValueError, match=r"rederive: line 5 no longer holds: claim: .* fails at"):
        general.claim(FORCE).rederive(laws=law)
    many = general.claim(FORCE).rederive(laws={Lambda_hat: SampleCovariance(Lambda_hat, Lambda, 7)})
    assert len(many.lines) == 5


def test_the_same_verbs_on_another_start(force):
    halved = force.rederive(start=LOSS / 2)
    assert halved.right == -(Lambda**2) + M * B * Lambda or "Lambda" in str(halved.right)
    assert halved.claim(FORCE / 2).check()[-1].status == "exact"
    with pytest.raises(ValueError, match=r"rederive: line \d no longer holds: gradient"):
        force.rederive(start=E(Lambda_hat**2))


CHAINS = {
    "the fixed point": (lambda: derive(LOSS).expect().fold(M, E(Lambda_hat**2)).gradient(B).solve_for(B), M**-1 * Lambda),
    "along": (lambda: derive(E(Lambda_hat**2)).expect().along_eigenvectors().factor(), lambda_ * (N * lambda_ + T + lambda_) / N),
    "commuting": (lambda: derive(Lambda * B * M).along_eigenvectors({B: b}), lambda_ * b * Symbol("a", positive=True)),
    "a root": (lambda: derive(3 * b - lambda_).solve_for(b), lambda_ / 3),
    "transposed": (lambda: derive(A * B).transpose(), B.T * A.T),
    "a trace": (lambda: derive(A * B).trace(), Trace(B * A)),
    "limit": (lambda: derive(E(Lambda_hat**2)).expect().limit(N), Lambda**2),
    "limit at 0": (lambda: derive((exp(u) - 1) / u).limit(u, 0), 1),
    "series": (lambda: derive(u / (1 + 1 / N)).series(N, 2), u - u / N),
    "a finite series": (lambda: derive(u + u / N).series(N, 2), u + u / N),
    "series at 0": (lambda: derive(exp(u)).series(u, 3, 0), 1 + u + u**2 / 2),
    "integral of a trace": (lambda: derive(Trace(A) / (u + 1) ** 2).integrate(u, 0, oo), Trace(A)),
    "integral": (lambda: derive(1 / (u + 1) ** 2).integrate(u, 0, oo), 1),
    "derivative": (lambda: derive(u**3).derivative(u), 3 * u**2),
    "rate": (lambda: derive(Trace(B * B.T)).derivative({B: -B}), -2 * Trace(B * B.T)),
    "hessian": (lambda: derive(Trace(B.T * Lambda * B)).hessian({B: A}), 2 * Trace(A.T * Lambda * A)),
    "substitute": (lambda: derive(A * B).substitute({B: Lambda / 2}), A * Lambda / 2),
    "expectation of both sides": (lambda: derive(Lambda_hat * A).expect(), Lambda * A),
    "expand": (lambda: derive((A + B) * Lambda).expand(), A * Lambda + B * Lambda),
    "collect": (lambda: derive(E(Lambda_hat**2)).expect().collect(N), Lambda**2 + (Lambda**2 + Trace(Lambda) * Lambda) / N),
    "collect traces": (lambda: derive(E(Lambda_hat**2)).expect().collect("traces").expand(), E(Lambda_hat**2).apply()),
}  # fmt: skip


@pytest.mark.parametrize("name", CHAINS)
def test_each_verb(name):
    built, expected = CHAINS[name]
    built = built()
    assert all(built.check())
    assert built.check()[-1].status in ("exact", "numeric")
    assert Line(built.right, "=", expected, conditions=built.conditions, earlier=built.lines).verify().status in ("exact", "numeric")
    assert built.latex().count("\\\\") == len(built.lines) - 1


def test_inequalities_go_on_from_the_right_side():
    chain = derive(2 * u).claim(u**2 + 1, "<=").claim((u - 1) ** 2 + 2 * u).expand()
    assert [line.relation for line in chain.lines] == ["<=", "=", "="]
    assert chain.left == u**2 + 1


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: derive("A B"), "derive: needs a formula"),
        (lambda: derive(A * B).gradient(B), "gradient: needs a scalar"),
        (lambda: derive(Trace(A * B)).substitute({B: A}).gradient(B), "B has been given a value"),
        (lambda: derive(Trace(A * B)).fold(M, E(Lambda_hat**2)), "fold: .* is no part of"),
        (lambda: derive(A * B * A * B).solve_for(B), "solve_for: "),
        (lambda: derive(u**2 - 1).claim(u), "fails at u = .*, by"),
        (lambda: derive(b**2 - 1).solve_for(b), "2 roots"),
        (lambda: derive(u**u).integrate(u, 0, 1), "integrate: "),
        (lambda: derive(Trace(A)).integrate(u, 0, oo), "integrate: the integral is not finite"),
        (lambda: derive(1 / u).integrate(u, 0, 1), "integrate: the integral is not finite"),
        (lambda: derive(A).integrate(u, 0, 1), "integrate: needs a number, got the matrix A"),
        (lambda: derive(N * Lambda).limit(N), "limit: the limit of N is not finite"),
        (lambda: derive(Trace(A)).trace(), "trace: needs a matrix, got the number"),
        (lambda: derive(u).transpose(), "transpose: needs a matrix, got the number u"),
        (lambda: derive(A).claim(u), r"claim: the sides have the shapes \(D, D\) and of a number"),
        (lambda: derive(A).along_eigenvectors(), "along_eigenvectors: no value along an eigenvector was given for A"),
        (lambda: derive(u).series(u, 0), "order must be a positive integer"),
        (lambda: derive(u).derivative(3), "derivative: along must be"),
        (lambda: derive(Rational(1, 2) * A).claim(A, "<"), "claim: matrices are not ordered"),
    ],
)
def test_what_does_not_apply_is_refused(build, message):
    with pytest.raises((ValueError, TypeError), match=message):
        build()
