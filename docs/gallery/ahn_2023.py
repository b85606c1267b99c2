"""Ahn, Cheng, Daneshmand and Sra (2023): linear transformers of one, two and three layers take preconditioned steps of gradient descent."""

import json
from pathlib import Path

import numpy as np
from iclflow.numerics import RegressionTask, compile_expression, integrate, linear_attention_risk
from iclflow.theory import E, Gaussian, Model, TracePolynomial, derive, expect, gradient, substitute
from iclflow.theory.notation import D, Lambda, Lambda_hat, N, T, beta, lambda_, matrix, vector, w, x_q
from iclflow.verify.figures.gallery import canvas
from iclflow.verify.figures.style import SERIES, TIME, themed
from page import Page
from sympy import Identity, Symbol, Trace, ZeroMatrix, expand, linsolve, prod, symbols

page = Page(
    __file__,
    title="Ahn, Cheng, Daneshmand, Sra (2023): layers as steps of preconditioned gradient descent",
    paper="Kwangjun Ahn, Xiang Cheng, Hadi Daneshmand, Suvrit Sra: *Transformers learn to implement preconditioned gradient descent for "
    "in-context learning*, NeurIPS 2023",
    link="https://arxiv.org/abs/2306.00297",
    result="The best single layer, and critical points of several layers, precondition gradient descent on the context.",
    verdict=r"Holds as published, and more: the infimum of Theorem 3 is attained, where $\prod_i(1-a_i\lambda)$ is the best polynomial. "
    "For three layers that is the authors' Figure 2, at a loss of 0.134, where the text says almost 0.",
)
A, a, alpha = matrix("A", D, latex="A"), symbols("a_0:3", real=True), Symbol("alpha")
A_l, w_l = matrix("A_l", D, latex=r"A_\ell"), vector("w_l", D, latex=r"w_\ell")

page.text(r"""
The paper's $n$, $d$ and $\Sigma$ are $N$, $D$ and $\boldsymbol\Lambda$ here. A layer adds $\frac1n PZM(Z^\top QZ)$ to the prompt $Z$, with
a mask $M$ that leaves out the query; with $P=\operatorname{diag}(0,1)$ and $Q=-\operatorname{diag}(A_\ell,0)$ the prediction after
$L$ layers is $w_L^\top x$. In the copy of the text that was at hand the displayed formulas are missing; they are typed as other texts quote
them.
""")
best = page.published(
    r"Theorem 1, an eigenvalue of the best $A_0$ for $w_\star\sim N(0,I)$, with $T=\operatorname{tr}\boldsymbol\Lambda$",
    alpha,
    1 / ((N + 1) / N * lambda_ + T / N),
)
isotropic = page.published("equation (7), for white tokens", alpha, 1 / ((N - 1) / N + (D + 2) / N))
step = page.published("Lemma 1", r"w_{\ell+1}", w_l - A_l * (Lambda_hat * w_l - beta))
stationary = page.published(
    r"Theorem 3, for $w_\star\sim N(0,\boldsymbol\Lambda^{-1})$ the gradient is as small as you like where, for some $a_i$",
    "A_i",
    a[0] * Lambda.I,
    wrong=a[0] * Identity(D),
)


# Derive
def layers(*preconditioners):
    """w_L' after some layers, by Lemma 1."""
    after = ZeroMatrix(D, 1)
    for one in preconditioners:
        after = substitute(step, {w_l: after, A_l: one})
    return after.T


def error(*preconditioners):
    """The in-context loss for w ~ N(0, Lambda^-1)."""
    miss = TracePolynomial(w.T * x_q) - layers(*preconditioners) * TracePolynomial(x_q)
    return expect(miss**2, Gaussian(w, covariance=Lambda.I))


one = derive(E((w.T * x_q - beta.T * A * x_q) ** 2)).expect().gradient(A).along_eigenvectors({A: alpha})
b, b_1, c = vector("p", D), Symbol("p_1", real=True), vector("q", D)  # the last row of P; A and c' are the first d columns of Q
blocks = b.T * Lambda_hat * A + b.T * beta * c.T + b_1 * beta.T * A + b_1 * w.T * Lambda_hat * w * c.T
all_blocks = Model(blocks * x_q, (b, b_1, A, c))
coefficients = symbols("c_1:4")  # of the polynomial that three steps make: prod (1 - a_i lambda) = 1 - c_1 lambda - c_2 lambda^2 - ...
polynomial = sum((k * beta.T * Lambda.I * (Lambda_hat * Lambda.I) ** n for n, k in enumerate(coefficients)), ZeroMatrix(1, D))
polynomial_error = expect((TracePolynomial(w.T * x_q) - polynomial * x_q) ** 2, Gaussian(w, covariance=Lambda.I))

# Compare
page.derived(one, "one layer")
page.exact("the best eigenvalue of one layer", one.solve_for(alpha).right, best)
page.exact("the same for white tokens", best.subs({lambda_: 1, T: D}), isotropic)
denominator = (1 / best).expand()
whole = (denominator.coeff(lambda_) * Lambda + denominator.coeff(T) * Trace(Lambda) * Identity(D)).I  # A_0, from its eigenvalues
at_best = {b: ZeroMatrix(D, 1), c: ZeroMatrix(D, 1), b_1: 1}
for name, flow in all_blocks.flow().items():
    page.exact(f"with all blocks of P and Q, {name} is at rest there", substitute(flow, at_best), 0 * name, where={A: whole})
for count in (1, 2, 3):
    for i in range(count):
        others = [one * Lambda.I for one in a[:count]]
        slope = gradient(error(*others[:i], A, *others[i + 1 :]), A)
        slope = substitute(slope, {A: stationary.subs(a[0], a[i])}).to_sympy()
        page.exact(f"{count} layers: the gradient in A_{i} is a multiple of Lambda", slope, Trace(slope * Lambda.I) * Lambda / D)
page.text(r"""
A multiple of $\boldsymbol\Lambda$ is the gradient of the numbers $a_i$ alone. As a function of them the loss is that of the polynomial
$\prod_i(1-a_i\lambda)=1-c_1\lambda-\ldots-c_L\lambda^L$, a quadratic form in the $c_k$ whose minimum solves $L$ linear equations. Its roots
are real and distinct, those of an orthogonal polynomial, so that the infimum is attained, at $a_i=1/\lambda_i$ of the roots.
""")
expanded = expand(1 - prod(1 - one * alpha for one in a))
roots_to_c = {k: expanded.coeff(alpha, n + 1) for n, k in enumerate(coefficients)}
page.exact("three layers are a polynomial", error(*(one * Lambda.I for one in a)), substitute(polynomial_error, roots_to_c))


def optimum(count: int, d: int, n: int) -> tuple[list[float], float]:
    """The a_i of the best polynomial of degree ``count``, ascending, and its loss."""
    used, unused = coefficients[:count], dict.fromkeys(coefficients[count:], 0)
    loss = polynomial_error.to_sympy().subs({D: d, N: n, **unused})
    (values,) = linsolve([loss.diff(one) for one in used], used)
    roots = np.roots([float(-one) for one in values[::-1]] + [1.0])
    return sorted(1 / roots), float(loss.subs(dict(zip(used, values, strict=True))))


measured = json.loads((Path(__file__).parents[2] / "tests/data/gallery/ahn_2023.json").read_text("utf-8"))
three, three_loss = optimum(3, 5, 20)
page.close("Figure 2 of the paper: the a_i of three trained layers, d = 5, n = 20", sorted(measured["figure_2"]), three, 0.01)
page.close(
    "its loss, of the formula and by the a_i",
    three_loss,
    compile_expression(error(*(one * Lambda.I for one in a)), (*a, N, D))(*three, 20, 5),
    1e-9,
)
page.close("the a_i of two layers, trained by the authors' code", measured["code"], optimum(2, 5, 20)[0], 0.03)

# Train: one layer with all its blocks, two layers on white tokens (Theorem 2), two layers on others (Theorem 3)
rng = np.random.default_rng(0)
task = RegressionTask(eigenvalues=[1.2, 0.4], context_length=4)
least = linear_attention_risk(task)
starts = [{b: (2, 1), b_1: (), A: (2, 2), c: (2, 1)} for _ in range(6)]
starts = [
    {name: scale * rng.standard_normal(shape) for name, shape in one.items()}
    for one, scale in zip(starts, 2 * (0.1, 0.5, 1.5), strict=True)
]
ends = [integrate(all_blocks, task, initial=start, t_end=2_000.0).loss_at(2_000) for start in starts]
page.below("no flow of all blocks ends below Theorem 1", [least * (1 - 1e-9)] * 6, ends)
page.close("the lowest of them ends there", min(ends), least, 1e-9)

A_0, A_1 = matrix("A_0", D), matrix("A_1", D)
two_layers = Model(layers(A_0, A_1) * x_q, (A_0, A_1))


def train(task: RegressionTask, scale: float, t_end: float):
    """The flow of two layers from Gaussian weights."""
    size = (task.dimension, task.dimension)
    return integrate(two_layers, task, initial={one: scale * rng.standard_normal(size) for one in (A_0, A_1)}, t_end=t_end, rtol=1e-6)


page.text(r"""
Theorem 2: on white tokens two layers have a global minimum with diagonal $A_0, A_1$, among symmetric ones. Here flows of any matrices end
at multiples of the identity, those of the best polynomial.
""")
white, steps = RegressionTask(eigenvalues=np.ones(2), context_length=3), optimum(2, 2, 3)[0]
for scale in (0.05, 0.5, 1.5):
    end = sorted(train(white, scale, 1_000.0).at(1_000).values(), key=np.trace)
    page.close(f"two layers on white tokens, trained from scale {scale}", end, [one * np.eye(2) for one in steps], 1e-4)

rotation, spectrum = np.linalg.qr(rng.standard_normal((3, 3)))[0], np.array([1.0, 0.6, 0.35])
root = rotation @ np.diag(np.sqrt(spectrum)) @ rotation.T
tokens = RegressionTask(covariance=root @ root, task_covariance=np.linalg.inv(root @ root), context_length=20)
run, steps = train(tokens, 0.01, 3_000.0), optimum(2, 3, 20)[0]
times = np.geomspace(0.1, 3_000, 200)
paths = [np.linalg.eigvals(root @ run.at(times)[one] @ root).real for one in (A_0, A_1)]
page.close("two layers on other tokens, trained", sorted(path[-1].mean() for path in paths), steps, 1e-3)
page.close(
    "their preconditioners are multiples of the inverse covariance", [np.ptp(path[-1]) / path[-1].max() + 1 for path in paths], 1, 1e-2
)
with themed() as theme:
    picture, axes = canvas(theme, 6.4, 3.4)
    for color, name, path in zip(SERIES, ("A_0", "A_1"), paths, strict=False):
        axes.plot(times, np.sort(path), color=color)
        axes.plot([], [], color=color, label=rf"eigenvalues of $\Lambda^{{1/2}}{name}\Lambda^{{1/2}}$")
    for one in steps:
        axes.axhline(one, color=theme.theory, ls="--", lw=1)
    axes.set(xscale="log", xlabel=TIME, ylabel="eigenvalue", xlim=(0.1, 3_000), ylim=(0, None))
    axes.legend()
page.figure(
    picture,
    r"Two layers, D = 3, N = 20, trained from small weights. Dashed: $a_0$ and $a_1$ of the best polynomial. The layers grow together, "
    "then split, one direction after the other.",
)
page.write()
