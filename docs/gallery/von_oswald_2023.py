"""Von Oswald et al. (2023): blocks of weights with which linear attention takes a step of gradient descent, and what training finds."""

import json
from pathlib import Path

import numpy as np
from iclflow.numerics import GaussianTokens, MergedWeights, QuadraticLoss, RegressionTask, compile_expression, gradient_flow
from iclflow.theory import E, SampleCovariance, derive
from iclflow.theory.notation import D, Lambda, Lambda_hat, N, beta, matrix, vector, w, x_q
from iclflow.verify.figures.gallery import canvas
from iclflow.verify.figures.style import SERIES, letters_on, themed
from page import Page
from scipy.special import ndtr
from sympy import BlockMatrix, Identity, Symbol, Trace, ZeroMatrix, block_collapse

page = Page(
    __file__,
    title="Von Oswald et al. (2023): a layer's weights as a step of gradient descent",
    paper="Johannes von Oswald, Eyvind Niklasson, Ettore Randazzo, Joao Sacramento, Alexander Mordvintsev, Andrey Zhmoginov, Max "
    "Vladymyrov: *Transformers learn in-context by gradient descent*, ICML 2023",
    link="https://arxiv.org/abs/2212.07677",
    result="Explicit blocks make linear attention take one step of gradient descent; training finds them, with the best rate.",
    verdict="Holds as published, with a closed form for the rate. The inputs behind Figure 2 are uniform on (-1/2, 1/2), as in the code, "
    "not on (-1, 1), as in the text.",
)
size, eta, c, kappa = Symbol("N_y", integer=True, positive=True), Symbol("eta"), Symbol("c", positive=True), Symbol("kappa", positive=True)
W_0, x_i, y_i = matrix("W_0", size, D, latex="W_0"), vector("x_i", D, latex="x_i"), vector("y_i", size, latex="y_i")
x_j, y_j = vector("x_j", D, latex="x_j"), vector("y_j", size, latex="y_j")
to_x, to_y, across = Identity(D), Identity(size), ZeroMatrix(D, size)

page.text(r"""
Tokens are $e_i=(x_i,y_i)$ with labels of any dimension. A layer adds $\sum_iPW_Ve_i\,(W_Ke_i)^\top W_Qe_j$ to token $j$, the query among
them.
""")
W_K = page.published("Appendix A.1", "W_K = W_Q", BlockMatrix([[to_x, across], [across.T, 0 * to_y]]))
W_V = page.published("Appendix A.1", "W_V", BlockMatrix([[0 * to_x, across], [W_0, -to_y]]))
scale = page.published("Appendix A.1, a multiple of the identity", "P", eta / N)
Delta_W = page.published("equation (7), the share of token $i$", r"\Delta W", -eta / N * (W_0 * x_i - y_i) * x_i.T)

# Derive
token, other = BlockMatrix([[x_i], [y_i]]), BlockMatrix([[x_j], [y_j]])
of_x, of_y = (scale * block for block in block_collapse(W_V * token * (W_K * token).T * W_K * other).blocks)
descent = derive(Trace((W_0 * x_i - y_i).T * (W_0 * x_i - y_i)) / (2 * N)).gradient(W_0)
# White tokens of variance c, with coordinates of kurtosis kappa: E x x' A x x' has a term in the diagonal of A, in whose place stands A,
# which is the same in the mean over w and x_q
law = SampleCovariance(Lambda_hat, c * Identity(D), N, lambda A: c**2 * (A + A.T + Trace(A.to_sympy()) * Identity(D) + (kappa - 3) * A))
rate = derive(E((w.T * x_q - eta * beta.T * x_q) ** 2, law)).expect().substitute({Lambda: c * Identity(D)}).gradient(eta).solve_for(eta)

# Compare
page.derived(
    descent, r"a step of gradient descent goes down this gradient of $\frac1{2N}\sum_i\|W_0x_i-y_i\|^2$, here the share of token $i$"
)
page.exact("a step of gradient descent", Delta_W, -eta * descent.right.to_sympy())
page.exact("the layer leaves inputs as they are", of_x, 0 * x_j)
page.exact("the layer takes the step at each label", of_y, -Delta_W * x_j)
page.text(r"""
*What training finds* (Section 3): the products $W_K^\top W_Q$ and $PW_V$ of the construction with $W_0=0$, up to a scale, and the rate that
a line search finds. The rate has a closed form: on white tokens of variance $c$ whose coordinates have kurtosis $\kappa$,
""")
page.derived(rate, r"the best rate on white tokens of variance $c$ and kurtosis $\kappa$")
page.text(r"""
The text has $x\sim U(-1,1)^d$ and no factor $\frac12$ in the loss. Its Figure 2, at a loss of 0.2, is what the code computes: half
the squared error, on $x\sim U(-\frac12,\frac12)^d$. With the text's inputs and loss it would be 1.65.

On its way, from step 200 to 1,400, their layer waits at a saddle: it has learned one direction, at the best rate, through the blocks that
the construction leaves empty, the inputs in the values and the label in the keys.
""")


class Uniform:
    """Independent coordinates, uniform, of variance 1: kurtosis 9/5."""

    def white(self, normal, shape):
        return np.sqrt(12) * (ndtr(normal(shape)) - 0.5)

    def fourth_moment(self, root, S):
        return GaussianTokens().fourth_moment(root, S) + (9 / 5 - 3) * (root * np.diag(root.T @ S @ root)) @ root.T


# The authors' setting, N = D = 10, and the numbers of their code
measured = json.loads((Path(__file__).parents[2] / "tests/data/gallery/von_oswald_2023.json").read_text("utf-8"))
task = RegressionTask(eigenvalues=np.full(10, 1 / 12), context_length=10, token_law=Uniform())
best = float(compile_expression(rate.right, (N, D, c, kappa))(10, 10, 1 / 12, 9 / 5))
loss = QuadraticLoss.population(task)
least = loss.value(best * np.eye(10))
end = gradient_flow(loss, MergedWeights(np.array([0.01]), 0.001 * np.eye(10)[None]), t_end=1e5).at(1e5)
page.close("the rate that reduced attention is trained to", end.v[0] * end.U[0], best * np.eye(10), 1e-6)
page.close("the rate of the authors' line search, in steps of 0.1", measured["best_rate"], best, 0.03)
page.close("its loss, on 10,000 tasks", 2 * measured["best_loss"], least, 0.01)
page.close("the loss of the layer that their code trained", 2 * measured["trained_loss"], least, 0.01)
page.close("the product of its keys and queries", measured["W_KQ"], np.diag([1.0] * 10 + [0.0]), 0.04)
page.close("the product of its values and projection", measured["PW_V"], np.diag([0.0] * 10 + [-best / 10]), 0.03)
text_task = RegressionTask(eigenvalues=np.full(10, 1 / 3), context_length=10, token_law=Uniform())
page.below("with the text's inputs and loss it would be above 1.6", 1.6, QuadraticLoss.population(text_task).value(best / 4 * np.eye(10)))

steps, losses = np.transpose(measured["curve"])
plateau = losses[(steps >= 200) & (steps <= 1_200)]
one_direction = loss.value(best * np.diag([1.0] + 9 * [0.0])) / 2
row, columns = (np.array(measured["step_800"][name]) for name in ("PW_V_row", "W_KQ_columns"))
of_empty_blocks = 10 * np.outer(row[:10], columns[10])  # the map of the context's correlation to a prediction, and one part of it
whole = of_empty_blocks + 10 * row[10] * columns[:10]
page.close("their layer after 800 steps has a map of rank one, at the best rate", np.linalg.svd(whole)[1], best * np.eye(10)[0], 0.05)
page.close("through the blocks that the construction leaves empty", whole, of_empty_blocks, 0.01)
page.close("the plateau of their training is the level of one direction", plateau, one_direction + 0 * plateau, 0.01)
with themed() as theme:
    picture, (left, right) = canvas(theme, 7.4, 3.2, ncols=2)
    left.plot(steps, losses, "o", ms=3, color=SERIES[0], label="authors' code")
    left.axhline(one_direction, color=theme.theory, ls=":", lw=1, label="one direction learned")
    left.axhline(least / 2, color=theme.theory, ls="--", lw=1, label="best step")
    left.set(xlabel="training step", ylabel="loss", ylim=(0.19, 0.43))
    left.legend()
    rates, losses = np.transpose(measured["line_search"])
    page.close("the losses of their line search", 2 * losses, [loss.value(one * np.eye(10)) for one in rates], 0.05)
    fine = np.linspace(0, 12, 200)
    right.plot(fine, [loss.value(one * np.eye(10)) / 2 for one in fine], "--", color=theme.theory, lw=1, label="theory")
    right.plot(rates, losses, "o", ms=3, color=SERIES[1], label="authors' line search")
    right.plot(-10 * measured["PW_V"][-1][-1], measured["trained_loss"], "*", ms=10, color=SERIES[0], label="trained by the authors' code")
    right.set(xlabel=r"rate $\eta$ of one step", ylim=(0.19, 0.43))
    right.legend(loc="upper center")
    letters_on(picture)
page.figure(
    picture,
    "(a) The loss while the authors' code trains a layer, and the levels of theory. (b) The loss of a step of gradient descent as a "
    "function of its rate, and where the trained layer is.",
)
page.write()
