"""Saxe, McClelland and Ganguli (2014): how a deep linear network learns one mode."""

import numpy as np
from iclflow.numerics import MergedWeights, QuadraticLoss, RegressionTask, WhiteReduction, compile_expression, gradient_flow, integrate
from iclflow.theory import E, Model, derive, equation, substitute
from iclflow.theory.notation import D, Lambda, alpha, gamma, lambda_, matrix, s_0, symmetric_matrix, t, tau, w, x_q
from iclflow.verify.figures.gallery import canvas
from iclflow.verify.figures.style import SERIES, TIME, themed
from page import Page
from sympy import diff, exp, log, symbols

page = Page(
    __file__,
    title="Saxe, McClelland, Ganguli (2014): the sigmoid of a deep linear network",
    paper="Andrew Saxe, James McClelland, Surya Ganguli: *Exact solutions to the nonlinear dynamics of learning in deep linear neural "
    "networks*, ICLR 2014",
    link="https://arxiv.org/abs/1312.6120",
    result="A linear network with one hidden layer learns each mode along a sigmoid, at a rate set by its singular value.",
    verdict="Holds as published. Merged attention on white tokens is such a network: equation (45) is this sigmoid.",
)
W32, W21, A = matrix("W_32", D, latex="W^{32}"), matrix("W_21", D, latex="W^{21}"), matrix("A", D, latex="A")
Sigma11, Sigma31 = symmetric_matrix("Sigma_11", D, latex=r"\Sigma^{11}"), matrix("Sigma_31", D, latex=r"\Sigma^{31}")
a, b, s, u, u_0, u_f = symbols("a b s u u_0 u_f", positive=True)  # u = a b, the strength of a mode; s, its singular value

page.text(r"""
A network $\hat y = W^{32} W^{21} x$ learns $y = Ax$, with $\Sigma^{11} = \mathbb{E}[xx^\top] = \boldsymbol\Lambda$ and
$\Sigma^{31} = \mathbb{E}[yx^\top] = A\boldsymbol\Lambda$. The squared error of all its outputs is that of one, $w^\top\hat y$, with white
$w$: so the network is a `Model` of iclflow, whose flow has no factor 2, like the paper's. The paper's text was not at hand: its formulas
are typed as public notes quote them, the numbers of sections from memory.
""")
flow21 = page.published("Section 1", r"\tau\frac{dW^{21}}{dt}", W32.T * (Sigma31 - W32 * W21 * Sigma11))
flow32 = page.published("Section 1", r"\tau\frac{dW^{32}}{dt}", (Sigma31 - W32 * W21 * Sigma11) * W21.T)
rate_a = page.published("Section 1.3, one mode", r"\tau\frac{da}{dt}", b * (s - a * b))
rate_u = page.published("Section 1.3, $u=ab$ with $a=b$", r"\tau\frac{du}{dt}", 2 * u * (s - u))
time = page.published("Section 1.3, the time from $u_0$ to $u_f$", t, tau / (2 * s) * log(u_f * (s - u_0) / (u_0 * (s - u_f))))
sigmoid = page.published("Section 1.3", "u_f(t)", s * exp(2 * s * t / tau) / (exp(2 * s * t / tau) - 1 + s / u_0))

# Derive
network = Model(w.T * W32 * W21 * x_q, (W32, W21), target=w.T * A * x_q, constants=(A,))
error = derive(E((w.T * A * x_q - w.T * W32 * W21 * x_q) ** 2)).expect()
correlations = {Sigma11: Lambda, Sigma31: A * Lambda}
mode = error.gradient(W21).along_eigenvectors({W32: b, W21: a, A: s})
strength = derive(a * b).derivative({a: rate_a, b: rate_a.subs({a: b, b: a}, simultaneous=True)})
attention = equation("45").derive().result["solution"]  # merged attention on white tokens

# Compare
page.derived(mode, r"a gradient is $-2$ times the flow; in the coordinates of the singular vectors all matrices are diagonal")
page.exact("the flow of the first layer", network.flow()[W21], substitute(flow21, correlations))
page.exact("the flow of the second layer", network.flow()[W32], substitute(flow32, correlations))
page.exact("the rate of a mode of white input", substitute(mode.right, {lambda_: 1}) / -2, rate_a)
page.exact("the rate of its strength u for a = b", substitute(strength.right, {b: a}), rate_u.subs(u, a**2))
page.exact("the time, differentiated", diff(time, u_f), tau / rate_u.subs(u, u_f))
page.exact("the time from u_0 to u_0", time.subs(u_f, u_0), 0)
page.exact("the sigmoid, differentiated", tau * diff(sigmoid, t), rate_u.subs(u, sigmoid))
page.exact("the sigmoid at t = 0", sigmoid.subs(t, 0), u_0)
page.text(r"""
Merged attention is a linear network on the cubic feature $\boldsymbol z = \operatorname{vec}(\boldsymbol\beta\boldsymbol x_q^\top)$ with
one output, and so with one mode, of singular value $\gamma=\|\mathbb{E}(y_q\boldsymbol z)\|$. On white tokens
$\mathbb{E}(\boldsymbol{zz}^\top)=\alpha\boldsymbol I$, and the strength is $u=\alpha\boldsymbol w_2^\top\boldsymbol w_2$.
""")
learned = sigmoid.subs({s: gamma, u_0: alpha * s_0}, simultaneous=True)
page.exact("merged attention on white tokens, alpha times (45)", alpha * attention, learned)

# Simulate
rng, start, modes = np.random.default_rng(0), 1e-3, (3.0, 2.0, 1.0)
U, R, V = (np.linalg.qr(rng.standard_normal((3, 3)))[0] for _ in range(3))
inputs, times = RegressionTask(eigenvalues=np.ones(3), context_length=1), np.linspace(0, 8, 200)
formula = compile_expression(sigmoid, (s, u_0, tau, t))


def train(inner: np.ndarray, outer: np.ndarray) -> np.ndarray:
    """The strengths of the three modes over time."""
    run = integrate(network, inputs, initial={W21: inner, W32: outer}, t_end=8.0, constants={A: U @ np.diag(modes) @ V.T}).at(times)
    return np.einsum("ia,tij,tjk,ka->ta", U, run[W32], run[W21], V)


decoupled = train(np.sqrt(start) * R @ V.T, np.sqrt(start) * U @ R.T)
random = train(*(np.sqrt(start) * rng.standard_normal((3, 3)) for _ in range(2)))
theory = np.stack([formula(one, start, 1.0, times) for one in modes], axis=1)
page.close("a network of three modes, trained from a decoupled start", decoupled, theory, 1e-6)

white, norm = RegressionTask(eigenvalues=np.ones(4), context_length=31), WhiteReduction(4, 31).moments
v = np.sqrt(start / norm[1]) * np.array([0.6, -0.8])
merged = gradient_flow(QuadraticLoss.population(white), MergedWeights(v, v[:, None, None] * np.eye(4) / 2), t_end=8.0)
strengths = norm[1] * np.einsum("th,th->t", *[np.stack([merged.at(one).v for one in times])] * 2)
page.close("merged attention on white tokens, trained", strengths, formula(norm[0], start, 1.0, times), 1e-6)

with themed() as theme:
    picture, axes = canvas(theme, 6.4, 3.4)
    for k, one in enumerate(modes):
        axes.plot(times, decoupled[:, k], color=SERIES[k], lw=3, alpha=0.5, label=f"network, s = {one:g}")
        axes.plot(times, random[:, k], color=SERIES[k], lw=0.8)
        axes.plot(times, theory[:, k], color=theme.theory, ls="--", lw=1)
    axes.plot(times[::8], strengths[::8], "o", ms=3, color=theme.ink, label="merged attention, s = 2")
    axes.set(xlabel=TIME, ylabel="strength $u$ of a mode", xlim=(0, 8), ylim=(0, 3.2))
    axes.legend(loc=(0.6, 0.67))
page.figure(
    picture,
    "Dashed: the published sigmoid. Wide lines: a trained network, from the decoupled start of the paper; thin lines: from random weights "
    "of the same size. Dots: merged attention on white tokens, D = 4, whose one mode has singular value 2.",
)
page.write()
