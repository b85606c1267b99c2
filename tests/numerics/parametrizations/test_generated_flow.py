"""The flow's hand-vectorised right-hand side against the formula that the theory layer generates, compiled."""

import numpy as np
from iclflow.numerics import MergedWeights, QuadraticLoss, RegressionTask, SeparateWeights, compile_expression
from iclflow.numerics.parametrizations.base import vector_field
from iclflow.theory import expect, gradient
from iclflow.theory.notation import D, Lambda, N, beta, matrix, vector, x_q, y_q
from sympy import symbols

H, R = 2, 2
v = symbols(f"v_1:{H + 1}", real=True)
U = [matrix(f"U_{i}", D) for i in range(H)]
k = [[vector(f"k_{i}{r}", D) for r in range(R)] for i in range(H)]
q = [[vector(f"q_{i}{r}", D) for r in range(R)] for i in range(H)]
TASK = RegressionTask(covariance=[[0.5, 0.1, 0.0], [0.1, 0.4, -0.1], [0.0, -0.1, 0.2]], context_length=5)


def generated_velocity(B, letters, values):
    """-1/2 dL/dW of L = E(y_q - beta' B x_q)^2, symbol by symbol, from the definition of the loss."""
    loss = expect((y_q - beta.T * B * x_q) ** 2)
    arguments = (Lambda, N, *letters)
    parts = []
    for letter in letters:
        slope = compile_expression(gradient(loss, letter), arguments)(TASK.covariance, TASK.context_length, *values)
        parts.append(-0.5 * np.ravel(slope))
    return np.concatenate(parts)


def generated_separate(weights):
    B = sum((v[i] * k[i][r] * q[i][r].T for i in range(H) for r in range(R)), start=0 * U[0])
    letters = [*v, *(letter for head in k for letter in head), *(letter for head in q for letter in head)]
    columns = [row[:, None] for array in (weights.k, weights.q) for row in array.reshape(-1, 3)]
    return generated_velocity(B, letters, [*weights.v, *columns])


def test_separate_flow_is_equation_80_as_generated():
    weights = SeparateWeights.initialize(TASK, heads=H, rank=R, scale=5.0, rng=np.random.default_rng(0))
    generated = generated_separate(weights)
    ours = vector_field(QuadraticLoss.population(TASK), weights)(0.0, weights.flatten())
    np.testing.assert_allclose(ours, generated, rtol=1e-11, atol=1e-13)
    # (80c) as it is printed, with the force untransposed, is another flow: the comparison sees it
    G = QuadraticLoss.population(TASK).force(weights.effective_map())
    printed = np.einsum("h,bc,hrc->hrb", weights.v, G, weights.k)
    assert np.abs(printed.ravel() - generated[-printed.size :]).max() > 1e-3


def test_merged_flow_is_equation_13_as_generated():
    weights = MergedWeights.initialize(TASK, heads=H, scale=5.0, rng=np.random.default_rng(0))
    ours = vector_field(QuadraticLoss.population(TASK), weights)(0.0, weights.flatten())
    generated = generated_velocity(v[0] * U[0] + v[1] * U[1], [*v, *U], [*weights.v, *weights.U])
    np.testing.assert_allclose(ours, generated, rtol=1e-11, atol=1e-13)
