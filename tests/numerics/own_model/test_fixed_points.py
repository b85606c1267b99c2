"""Fixed points of a user's model: complete lists against the landscape of the paper and against search, and searches that say so."""

import numpy as np
import pytest
from iclflow.numerics.landscape.fixed_points import merged_fixed_points, separate_fixed_points
from iclflow.numerics.own_model.fixed_points import fixed_points, levels
from iclflow.numerics.tasks.regression import RegressionTask
from iclflow.theory.model import Model
from iclflow.theory.notation import D, Lambda_hat, beta, matrix, x_q
from sympy import Symbol, Trace

TASK = RegressionTask(covariance=[[0.6, 0.2], [0.2, 0.4]], context_length=5)
THREE = RegressionTask(eigenvalues=[0.6, 0.3, 0.1], context_length=5, noise_variance=0.2)
v, u = Symbol("v", real=True), Symbol("u", real=True)
K, Q, k, q = matrix("K", 1, D), matrix("Q", 1, D), matrix("k", 1, D), matrix("q", 1, D)
U, W, V = matrix("U", D), matrix("W", D), matrix("V", D)


def test_separate_attention_has_the_landscape_of_the_paper():
    """Two heads of rank one: the sets, losses, indices and nullities of the theory of separate attention."""
    model = Model(v * beta.T * K.T * Q * x_q + u * beta.T * k.T * q * x_q, (v, K, Q, u, k, q))
    for task in (TASK, THREE):
        found = fixed_points(model, task)
        expected = sorted(separate_fixed_points(task, heads=2), key=lambda point: -point.loss)
        assert found.complete
        assert [point.directions for point in found] == [point.directions for point in expected]
        for mine, theirs in zip(found, expected, strict=True):
            assert mine.loss == pytest.approx(theirs.loss, rel=1e-12)
            np.testing.assert_allclose(mine.spectrum, theirs.spectrum, atol=1e-9)
            assert (mine.index, mine.nullity) == (theirs.index, theirs.nullity)
            assert mine.residual < 1e-12
        assert levels(model, task) == pytest.approx([point.loss for point in expected])


@pytest.mark.parametrize(
    ("prediction", "weights", "count"),
    [
        (beta.T * U * x_q, (U,), 1),
        (beta.T * (U + W * V) * x_q, (U, W, V), 1),
        (v * beta.T * U * x_q + u * beta.T * W * x_q, (v, U, u, W), 2),
        (beta.T * U.T * W * x_q / 3, (U, W), 4),
        (beta.T * K.T * Q * x_q, (K, Q), 3),
        (beta.T * U * W * V * x_q, (U, W, V), 4),
    ],
)
def test_a_complete_list_holds_every_root_of_a_search(prediction, weights, count):
    """Least squares from random starts ends at losses of the list only."""
    model = Model(prediction, weights)
    listed = fixed_points(model, TASK)
    assert listed.complete
    assert len(listed) == count
    assert all(point.residual < 1e-10 for point in listed)
    searched = fixed_points(Model(prediction, weights, penalty=0 * Trace(weights[-1] * weights[-1].T) + 1), TASK, starts=6)
    assert not searched.complete
    assert searched.converged >= 2
    known = np.array([point.loss for point in listed])
    assert max(np.abs(known - (point.loss - 1)).min() for point in searched) < 1e-8


def test_merged_attention_has_two():
    found = fixed_points(Model(v * beta.T * U * x_q, (v, U)), TASK)
    assert [p.loss for p in found] == pytest.approx([p.loss for p in merged_fixed_points(TASK, heads=1)])
    np.testing.assert_allclose(
        found.points[1].weights[v] * found.points[1].weights[U], merged_fixed_points(TASK, heads=1)[1].weights.effective_map()
    )


def test_what_is_not_known_is_searched_and_says_so():
    """Weight decay removes what learns less than it costs: with gamma above the norm of Lambda^2 only zero stays."""
    gamma = Symbol("gamma", positive=True)
    decayed = Model(v * beta.T * U * x_q, (v, U), penalty=gamma * (Trace(U.T * U) + v**2), constants=(gamma,))
    strong = fixed_points(decayed, TASK, constants={gamma: 2.0}, starts=10)
    assert [np.abs(point.flat).max() < 1e-6 for point in strong] == [True]
    weak = fixed_points(decayed, TASK, constants={gamma: 0.01}, starts=20)
    assert max(np.abs(point.flat).max() for point in weak) > 0.1
    assert not weak.complete
    assert "20 random starts" in weak.reason
    assert sum(point.found for point in weak) == weak.converged
    two_steps = Model(beta.T * (2 * U - U * Lambda_hat * U) * x_q, (U,))
    assert not fixed_points(two_steps, TASK, starts=4).complete
    white = RegressionTask(eigenvalues=[0.5, 0.5], context_length=4)
    assert not fixed_points(Model(beta.T * K.T * Q * x_q, (K, Q)), white, starts=4).complete


def test_conditions_in_words_of_the_force():
    model = Model(v * beta.T * K.T * Q * x_q, (v, K, Q))
    assert str(model.effective_map) == "v K' Q"
    assert {str(w): str(c) for w, c in model.fixed_point_conditions().items()} == {"v": "K F Q'", "K": "v Q F'", "Q": "v K F"}
    with pytest.raises(ValueError, match="prediction must be beta' B x_q"):
        Model(beta.T * U * Lambda_hat * x_q, (U,)).fixed_point_conditions()


def test_refusals():
    P = matrix("P", Symbol("m", integer=True, positive=True), D)
    with pytest.raises(ValueError, match="sizes D or numbers"):
        fixed_points(Model(beta.T * P.T * P * x_q, (P,)), TASK)
    with pytest.raises(ValueError, match="penalty must not depend on what is random"):
        Model(beta.T * U * x_q, (U,), penalty=Trace(Lambda_hat * U))
    with pytest.raises(ValueError, match="starts"):
        fixed_points(Model(beta.T * U * x_q, (U,)), TASK, starts=0)
