"""A model of the user: its loss and flow against other routes; what is refused."""

import numpy as np
import pytest
from iclflow.theory import Fixed, Gaussian, Mixture, SampleCovariance, TracePolynomial, expect, explicit, substitute
from iclflow.theory.model import Model
from iclflow.theory.notation import D, Lambda, Lambda_hat, N, beta, matrix, sigma, symmetric_matrix, vector, w, x_q, y_q
from iclflow.theory.results.own_model.two_steps import U, two_steps
from iclflow.theory.results.task.regression import force
from sympy import Identity, Matrix, MatrixSymbol, Symbol, Trace, ZeroMatrix, exp, sqrt

V, K, zeta = matrix("V", D), matrix("K", D, 2), vector("zeta", D)
v, P = Symbol("v", positive=True), Symbol("P", integer=True, positive=True)
LONGER = SampleCovariance(Lambda_hat, Lambda, P)
SOMETIMES = Mixture(((v, Gaussian(w)), (1 - v, Fixed(w, ZeroMatrix(D, 1)))))


def test_linear_attention_is_the_simplest_model():
    """The flow of beta' U x_q is the force (53)."""
    flow = Model(beta.T * U * x_q, (U,)).flow()[U]
    M, B = symmetric_matrix("M", D), matrix("B", D)
    assert flow == substitute(force(), {M: expect(Lambda_hat**2), B: U})


def test_gradient_is_that_of_the_loss():
    """Central differences of the loss, written out for D = 2."""
    rng = np.random.default_rng(0)
    point, covariance = rng.integers(-3, 4, (2, 2)), [[2, 1], [1, 3]]
    loss = explicit(two_steps().loss(), {Lambda: covariance}, D=2).subs(N, 4)
    flow = explicit(two_steps().flow()[U], {Lambda: covariance, U: point.tolist()}, D=2).subs(N, 4)
    entries = [[Symbol(f"u{i}{j}") for j in range(2)] for i in range(2)]
    plain = loss.subs({loss_entry: entries[loss_entry.i][loss_entry.j] for loss_entry in loss.atoms(type(U[0, 0]))})
    at = {entries[i][j]: int(point[i, j]) for i in range(2) for j in range(2)}
    for i in range(2):
        for j in range(2):
            assert flow[i, j] == -plain.diff(entries[i][j]).subs(at) / 2


def test_weights_of_any_kind():
    """Scalars, rectangles, symmetric matrices; laws of one's own; constants."""
    v, A = Symbol("v", real=True), matrix("A", D)
    Q = matrix("Q", 2, D)
    assert set(Model(v * beta.T * K * Q * x_q, (v, K, Q)).flow()) == {v, K, Q}
    noisy = Model(
        beta.T * U * x_q,
        (U,),
        laws=(Fixed(beta, Lambda_hat * w + zeta), Gaussian(zeta, covariance=sigma**2 / N * Lambda_hat)),
        constants=(sigma,),
    )
    noise = sigma**2 / N * Trace(U.T * Lambda * U * Lambda)
    assert noisy.loss() == Model(beta.T * U * x_q, (U,)).loss() + noise
    assert Model(beta.T * U * A * x_q, (U,), constants=(A,)).loss().free_symbols == {U, A, Lambda, N}
    assert Model(w.T * U * x_q, (U,), target=w.T * U * x_q + y_q).loss() == Trace(Lambda)


def test_inverse_needs_full_rank():
    """Lambda_hat^-1 beta is the task vector, but only where Lambda_hat has an inverse."""
    model = Model(beta.T * Lambda_hat.inv() * U * x_q, (U,))
    assert model.conditions == {N >= D}
    assert Model(beta.T * U * x_q, (U,)).conditions == frozenset()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"prediction": exp((beta.T * U * x_q)[0, 0]), "weights": (U,)}, "prediction must be a polynomial"),
        ({"prediction": 0.5 * beta.T * U * x_q, "weights": (U,)}, "write it as one, e.g. Rational"),
        ({"prediction": beta * x_q.T * U, "weights": (U,)}, "one number for each sequence"),
        ({"prediction": beta.T * matrix("U", 3) * x_q, "weights": (U,)}, "shape mismatch"),
        ({"prediction": beta.T * U * V * x_q, "weights": (U,)}, "V has no law.*add it to weights"),
        ({"prediction": beta.T * U * zeta, "weights": (U,)}, r"laws=\(Gaussian\(zeta\),\)"),
        ({"prediction": beta.T * symmetric_matrix("S", D) * U * x_q, "weights": (U,)}, r"SampleCovariance\(S, Lambda"),
        ({"prediction": beta.T * U * x_q, "weights": (U, V)}, "on which the prediction .* does not depend"),
        ({"prediction": beta.T * U * x_q, "weights": ()}, "at least one symbol"),
        ({"prediction": beta.T * U * x_q, "weights": (U, w)}, "weights must not hold w"),
        ({"prediction": beta.T * U * x_q, "weights": (U, matrix("U", D, D))}, "names of their own"),
        ({"prediction": beta.T * U * x_q, "weights": (U,), "constants": (Lambda,)}, "must not hold Lambda, to which the task"),
        ({"prediction": beta.T * U * x_q / N, "weights": (U,), "constants": (N,)}, "constants must not hold N, to which the task"),
        ({"prediction": beta.T * U * x_q, "weights": (U,), "constants": (w,)}, r"must not hold w.*laws=\(Fixed\(w, other\),\)"),
        ({"prediction": beta.T * U * x_q, "weights": (U,), "constants": (V,)}, "constants holds V, on which neither"),
        ({"prediction": beta.T * U * x_q, "weights": (U,), "constants": (U,)}, "U, which constants hold too"),
        ({"prediction": beta.T * U * V * x_q, "weights": (U,), "constants": (V, V)}, "constants must have names of their own"),
        (
            {"prediction": beta.T * matrix("w", D) * x_q, "weights": (matrix("w", D),)},
            r"w must be the name of one symbol.*\(D, 1\).*\(D, D\)",
        ),
        ({"prediction": Symbol("N") * beta.T * U * x_q, "weights": (U,), "constants": (Symbol("N"),)}, "N must be the name of one"),
        ({"prediction": beta.T * U * MatrixSymbol("x_q", D, 1), "weights": (U,)}, "import it from iclflow.theory.notation"),
        ({"prediction": beta.T * U * x_q + v * beta.T * x_q, "weights": (U,)}, "v has no law, .*depends on it: add it to weights"),
        ({"prediction": beta.T * U * x_q, "weights": (U,), "laws": (LONGER,)}, "P has no law"),
        ({"prediction": beta.T * U * x_q, "weights": (U,), "laws": (SOMETIMES,)}, "v has no law"),
        ({"prediction": 0.5 * beta.T * U * x_q, "weights": (U,)}, "^prediction must have rational coefficients.*symbol of constants"),
        ({"prediction": 0.5, "weights": (U,)}, "^prediction must have rational coefficients"),
        ({"prediction": sqrt(2) * beta.T * U * x_q, "weights": (U,)}, "polynomial.*a symbol of constants, whose value"),
        ({"prediction": beta.T * U * Matrix(1, 1, [2]), "weights": (U,)}, "polynomial.*a symbol of constants, whose value"),
        ({"prediction": beta.T * U * x_q, "weights": (U,), "laws": (Gaussian(w), Fixed(w, zeta))}, "^laws must .* two of w"),
        (
            {"prediction": exp(v) * beta.T * U * x_q, "weights": (U, v)},
            "polynomial.*expand it in powers.*train of iclflow.verify.training.descent",
        ),
        ({"prediction": beta.T * (U + Lambda_hat).I * x_q, "weights": (U,)}, "polynomial.*cannot invert.*expand it in powers"),
        ({"prediction": (beta.T * U * x_q)[0, 0], "weights": (U,)}, r"as a 1 x 1 product, x.T\*A\*y; supported[^;]*$"),
    ],
)
def test_refusals_say_what_to_do(arguments, words):
    with pytest.raises(ValueError, match=words):
        Model(**arguments)


@pytest.mark.parametrize("prediction", [None, np.eye(2), lambda U: U, "beta.T * U * x_q"])
def test_a_prediction_that_is_no_expression(prediction):
    with pytest.raises(TypeError, match="prediction must be an expression such as"):
        Model(prediction, (U,))
    with pytest.raises(TypeError, match="target must be an expression such as"):
        Model(beta.T * U * x_q, (U,), target=prediction)


def test_constants_may_stand_in_laws_alone():
    """In a number of samples, a share of a mixture, a fourth moment."""
    kappa = Symbol("kappa", positive=True)
    tokens = SampleCovariance(
        Lambda_hat, Lambda, N, fourth_moment=lambda A: kappa * (Lambda * (A + A.T) * Lambda + (A * Lambda).trace() * Lambda)
    )
    for law, constant in ((LONGER, P), (SOMETIMES, v), (tokens, kappa)):
        assert constant in Model(beta.T * U * x_q, (U,), laws=(law,), constants=(constant,)).loss().free_symbols


def test_an_offset_is_a_number_times_the_identity():
    """Three ways to write it, and the trace of a weight."""
    losses = [
        Model(prediction, (U, v)).loss()
        for prediction in (beta.T * U * x_q + v * Identity(1), TracePolynomial(beta.T * U * x_q) + v, Trace(beta.T * U * x_q) + v)
    ]
    assert losses == 3 * [Model(beta.T * U * x_q, (U,)).loss() + v**2]


def test_refuses_wrong_types():
    with pytest.raises(TypeError, match="weights must be symbols"):
        Model(beta.T * U * x_q, (TracePolynomial(U),))
    with pytest.raises(TypeError, match=r"constants must be symbols, e\.g\. matrix.* got 'A'"):
        Model(beta.T * U * matrix("A", D) * x_q, (U,), constants=("A",))
    with pytest.raises(TypeError, match="laws must hold laws"):
        Model(beta.T * U * x_q, (U,), laws=("Gaussian",))
