"""The laws of random symbols: what they refuse."""

import pytest
from iclflow.theory import Fixed, Gaussian, Mixture, SampleCovariance
from iclflow.theory.notation import D, Lambda, Lambda_hat, N, matrix, sigma, symmetric_matrix, vector, w  # fmt: skip
from sympy import MatrixSymbol, Rational, S, Trace

A, B, C = (matrix(name, D) for name in "ABC")
K = symmetric_matrix("K", D)
u, m, x, zeta = (vector(name, D) for name in ("u", "m", "x", "zeta"))
L, L_hat = Lambda, Lambda_hat


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gaussian(K), "the symbol must be a vector or a matrix that is not symmetric, got K"),
        (lambda: Gaussian(MatrixSymbol("r", 1, D), covariance=K), r"covariance of r must have shape scalar, got K of \(D, D\)"),
        (lambda: Gaussian(A, columns=C), "columns must be symmetric, got C"),
        (lambda: Gaussian("x"), "must be a vector or a matrix that is not symmetric, got 'x'"),
        (lambda: Gaussian(x, covariance=A), "covariance must be symmetric, got A"),
        (lambda: Gaussian(x, covariance=u), r"covariance of x must have shape \(D, D\), got u of \(D, 1\)"),
        (lambda: Gaussian(x, mean=A), r"mean of x must have shape \(D, 1\), got A"),
        (lambda: Fixed("x", A), "Fixed: the symbol must be a matrix or a vector symbol, got 'x'"),
        (lambda: Fixed(sigma, N), "must be a matrix or a vector symbol, got sigma"),
        (lambda: Fixed(x, None), "value of x must be given"),
        (lambda: SampleCovariance(K, None, N), "covariance of K must be given"),
        (lambda: SampleCovariance(K, L, None), "samples of K must be given"),
        (lambda: Mixture(((2, Gaussian(w)), (-1, Fixed(w, u)))), "a probability must not be negative, got -1"),
        (lambda: Fixed(x, A), r"value of x must have shape \(D, 1\), got A"),
        (lambda: SampleCovariance(A, L, N), "A must be a symmetric_matrix symbol"),
        (lambda: SampleCovariance(K, A, N), "covariance must be symmetric, got A"),
        (lambda: SampleCovariance(K, x, N), r"covariance of K must have shape \(D, D\)"),
        (lambda: SampleCovariance(K, L, A), "samples of K must have shape scalar"),
        (lambda: SampleCovariance(K, L, N, mean=L), r"mean of K must have shape \(D, 1\)"),
        (lambda: SampleCovariance(K, L, N, lambda A: A, x), "fourth_moment is that of tokens with mean 0"),
        (lambda: SampleCovariance(K, L, 0), "samples must be a positive integer or a symbol, got 0"),
        (lambda: SampleCovariance(K, L, -3), "samples must be a positive integer"),
        (lambda: SampleCovariance(K, L, Rational(1, 2)), "samples must be a positive integer"),
        (lambda: SampleCovariance(K, L, 2.5), "not a rational number"),
        (lambda: Mixture(((S.Half, Gaussian(w)), (Rational(1, 3), Fixed(w, u)))), "probabilities must add up to 1, got 5/6"),
        (lambda: Mixture(((S.Half, Gaussian(w)), (S.Half, Gaussian(x)))), "the laws must be for one symbol"),
        (lambda: Mixture(()), "the laws must be for one symbol"),
        (lambda: Mixture(((Trace(L_hat), Gaussian(w)), (1 - Trace(L_hat), Fixed(w, u)))), "rational in scalar symbols"),
        (lambda: Mixture(((0.5, Gaussian(w)), (0.5, Fixed(w, u)))), "not a rational number"),
    ],
)  # fmt: skip
def test_laws_are_checked(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("parts", [((1, 3),), (Gaussian(x),), (1, Gaussian(x)), None, {1: Gaussian(x)}], ids=str)
def test_mixture_parts_are_pairs(parts):
    with pytest.raises(TypeError, match=r"pairs? \(probability, law\), got "):
        Mixture(parts)


def test_a_fourth_moment_map_is_a_function():
    with pytest.raises(TypeError, match="fourth_moment must be a function, got 3"):
        SampleCovariance(K, L, N, fourth_moment=3)
