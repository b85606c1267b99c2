"""Gatmiry, Saunshi, Reddi, Jegelka and Kumar (2024): what gradient flow makes of looped linear attention."""

import numpy as np
import torch
from iclflow.numerics import RegressionTask, compile_expression, integrate
from iclflow.theory import E, Gaussian, Model, SampleCovariance, TracePolynomial, derive, expect, gradient, substitute
from iclflow.theory.notation import D, Lambda_hat, N, beta, matrix, symmetric_matrix, t, vector, w, x_q
from iclflow.verify.figures.gallery import canvas
from iclflow.verify.figures.style import LOSS, SERIES, TIME, themed
from iclflow.verify.own_model.prompts import ModelNetwork
from iclflow.verify.training.descent import fresh_batches, train
from page import Page
from sympy import Identity, Poly, Rational, Symbol, ZeroMatrix, diff, factor, latex, limit, oo, solve, sqrt, symbols

page = Page(
    __file__,
    title="Gatmiry, Saunshi, Reddi, Jegelka, Kumar (2024): looped linear attention",
    paper="Khashayar Gatmiry, Nikunj Saunshi, Sashank Reddi, Stefanie Jegelka, Sanjiv Kumar: *Can looped transformers learn to implement "
    "multi-step gradient descent for in-context learning?*, ICML 2024",
    link="https://arxiv.org/abs/2410.08292",
    result="The best looped linear attention takes preconditioned gradient steps; gradient flow finds it, since the gradient dominates a "
    "power of the loss.",
    verdict="$u=0$ holds for every $n$. The preconditioner is far closer to the inverse covariance than the bound says, at distance "
    "$O(1/n)$. The power $(2L-1)/L$ is right, but its constant must fall with $d$: a constant $1/16$, as a summary quotes it, fails "
    "from $d>(64L^2)^{L/(L-1)}$.",
)
Sigma = symmetric_matrix("Sigma", D, latex=r"\Sigma^*")
A, u, a, ell, d, n = matrix("A", D, latex="A"), vector("u", D, latex="u"), Symbol("a", real=True), *symbols("L d n", positive=True)
SETTING = (SampleCovariance(Lambda_hat, Sigma, N), Gaussian(x_q, covariance=Sigma), Gaussian(w, covariance=Sigma.I))
LOOPS = (1, 2, 3, 4)

page.text(r"""
One block $Z\mapsto Z-\frac1n PZMZ^\top QZ$ is applied $L$ times to a prompt with a query. $Q$ holds a matrix $A$, and the
last row of $P$ is $(u^\top, 1)$. The tokens are $\mathcal{N}(0,\Sigma^*)$, the tasks $\mathcal{N}(0,\Sigma^{*-1})$, and
$\mathcal{L}(A, u)$ is the mean squared error.
The letters are the paper's; here $d=D$, $n=N$. The text of the paper could not be had: its statements are
taken from a detailed summary, so constants and conditions may be quoted incompletely.
""")
c = page.published(
    r"Theorem 3.2: $u_{\rm opt}=0$ and $(1-c)\Sigma^{*-1}\preceq A_{\rm opt}\preceq(1+c)\Sigma^{*-1}$ with",
    "c",
    8 * (8 * ell * d / sqrt(n)) ** (1 / (2 * ell)) * d ** (1 / (2 * ell)),
    wrong=(d / n**2) ** ell,
)
size = Symbol(r"\mathcal{L}", positive=True)
dominated = page.published(
    r"Theorem 3.4, for $\Sigma^*=I$ and losses that are not tiny, $\|\nabla_A\mathcal{L}\|^2\geq B$ with",
    "B",
    size ** ((2 * ell - 1) / ell) / 16,
    wrong=size**2,
)


# Derive
def left(loops: int, A=A, u=u) -> TracePolynomial:
    """What the loops leave of the task: the error of the prediction is left' x_q. Each loop adds u and takes a step."""
    task = TracePolynomial(w.T)
    for _ in range(loops):
        task = task - (task + u.T) * Lambda_hat * A
    return task


def loss(loops: int, A=A, u=u) -> TracePolynomial:
    return expect((left(loops, A, u) * x_q) ** 2, SETTING)


none = ZeroMatrix(D, 1)
step = Identity(D) - a * Lambda_hat * Sigma.I
page.derived(derive(E((w.T * step * x_q) ** 2, SETTING)).expect(), r"the loss of one loop with $A=a\Sigma^{*-1}$; $\Sigma^*$ drops out")
page.derived(derive(E((w.T * step**2 * x_q) ** 2, SETTING)).expect(), "the loss of two loops with this $A$")
along = {L: loss(L, a * Sigma.I, none).to_sympy() for L in LOOPS}  # polynomials in a, with exact coefficients in d and n
slope = {L: diff(along[L], a) for L in LOOPS}

# Compare
for L in (1, 2, 3):
    extra = expect((substitute(left(L), {w: ZeroMatrix(D, 1)}) * x_q) ** 2, SETTING)
    page.exact(f"L = {L}: what u adds to the loss is a square", loss(L) - loss(L, u=none), extra)
page.text(r"""
So $u=0$ is best for every $A$ and $n$. A linear change of coordinates makes $\Sigma^*=I$, and there the flow from $A=0$ stays at
$A=aI$ by symmetry.
""")


def best(loops: int, k: int, length: int) -> float:
    """The one stationary a, to 30 digits."""
    return next(root for root in Poly(slope[loops].subs({D: k, N: length}), a).nroots(30) if root.is_real)


rng = np.random.default_rng(0)
settings = [(int(rng.integers(1, 5)), int(rng.integers(1, 30)), int(10 ** rng.uniform(1, 6))) for _ in range(40)]
page.below(
    "Theorem 3.2: the best preconditioner lies within c of the inverse covariance",
    [abs(1 - best(*one)) for one in settings],
    [c.subs(dict(zip((ell, d, n), one, strict=True))) for one in settings],
)
# The distance to the inverse covariance: the leading power of 1/n in the slope at a = 1 - kappa/n
kappa, shrinking = symbols("kappa epsilon", positive=True)
nearest = {}
for L in LOOPS[:3]:
    balance = diff(along[L].subs(a, 1 - kappa / N), kappa).subs(N, 1 / shrinking)
    nearest[L] = factor(solve(Poly(balance, shrinking).EC(), kappa)[0])
rows = r" \\ ".join(f"{latex(distance)} & \\text{{for }} L = {L}" for L, distance in nearest.items())
page.text(rf"""
The bound $c$ is below 1 only for $n>(8^{{2L+1}}Ld^2)^2$. By the exact loss $A_{{\rm opt}}=(1-\kappa/n+O(n^{{-2}}))\,\Sigma^{{*-1}}$ with

$$
\kappa = \begin{{cases}} {rows} \end{{cases}}
$$
""")
lengths = 10 ** np.arange(3, 7)
for L, distance in nearest.items():
    left_over = [abs(1 - best(L, 5, int(length)) - distance.subs(D, 5) / int(length)) for length in lengths]
    page.rate(f"L = {L}: what kappa/n leaves of the distance", lengths, left_over, -2, 0.02)

# Gradient dominance
for L in LOOPS:
    start = slope[L].subs(a, 0) ** 2 / D  # the gradient is the slope over d, times I
    page.exact(f"L = {L}: the squared gradient at A = 0, for every n", start, 4 * L**2 * D)
    long, sharp = limit(along[L], N, oo), 4 * L**2 * D ** (Rational(1, L) - 1)
    bound = 16 * sharp * dominated.subs({ell: L, size: long})
    page.exact(f"L = {L}: Theorem 3.4 at A = aI in long contexts, with 4 L^2 d^(1/L - 1) for 1/16", limit(slope[L], N, oo) ** 2 / D, bound)
squares, bounds = [], []
for L in (2, 3):
    white = substitute(loss(L, u=none), {Sigma: Identity(D)})
    value, slopes = compile_expression(white, (A, N, D)), compile_expression(gradient(white, A), (A, N, D))
    for _ in range(100):
        k, length = int(rng.integers(2, 7)), int(10 ** rng.uniform(1, 4))
        point = rng.uniform(-1, 2) * np.eye(k) + rng.uniform(0, 1) * rng.standard_normal((k, k))
        if value(point + point.T, length, k) > k / 10:
            squares.append(np.sum(slopes(point + point.T, length, k) ** 2))
            bounds.append(float(dominated.subs({ell: L, size: value(point + point.T, length, k)})))
page.below("Theorem 3.4: the bound, at random symmetric A with a loss over d/10, L = 2 and 3, d to 6", bounds, squares)
large = {L: int((64 * L**2) ** (L / (L - 1)) * 1.01) for L in LOOPS[1:]}
page.text(rf"""
At $A=0$, where the flow starts, $\mathcal{{L}}=d$ and $\|\nabla_A\mathcal{{L}}\|^2=4L^2d$ for every $n$. The quoted bound
$d^{{2-1/L}}/16$ is larger from $d>(64L^2)^{{L/(L-1)}}$: from 65,537 for two loops, {large[4]:,} is enough for four. With the constant
$4L^2d^{{1/L-1}}$ the bound is an equality for all $A=aI$ in long contexts, so no larger constant holds.
""")
page.below(
    "A counterexample to a constant 1/16: A = 0 in a dimension 1% over that, L = 2, 3, 4",
    [4 * L**2 * k for L, k in large.items()],
    [float(dominated.subs({ell: L, size: k})) for L, k in large.items()],
)
for L in LOOPS[1:]:
    decay = D * (1 + 4 * L * (L - 1) * t) ** Rational(-L, L - 1)
    reached = 1 - (decay / D) ** Rational(1, 2 * L)  # the loss is d (1 - a)^(2L)
    force = -limit(slope[L], N, oo).subs(a, reached) / D
    page.exact(f"L = {L}: in long contexts the loss falls as t^(-L/(L-1))", diff(reached, t), force)


# Simulate
def looped(loops: int, A, weight) -> Model:
    """The prediction with u = 0, as it is read off a prompt."""
    row = TracePolynomial(ZeroMatrix(1, D))
    for _ in range(loops):
        row = row + (beta.T - row * Lambda_hat) * A
    return Model(row * x_q, weight)


task, start, end = RegressionTask(eigenvalues=np.ones(5), context_length=30), np.zeros((5, 5)), 6.0
runs, flows = {}, {}
for L in LOOPS:
    generator = torch.Generator().manual_seed(L)
    network = ModelNetwork(looped(L, A, A), task, {A: start})
    runs[L] = train(network, fresh_batches(task, 1000, generator), steps=300, learning_rate=0.01)
    flows[L] = integrate(looped(L, a * Identity(D), a), task, initial={a: 0.0}, t_end=end, tau=5.0)  # the slope in A is that in a over d
    page.close(f"L = {L}: trained on fresh prompts, A at the end", runs[L].states["A"][-1], flows[L].at(end)[a] * np.eye(5), 0.05)
symmetric = [(one + one.T) / 3 for one in rng.standard_normal((3, 5, 5))]
ends = [integrate(looped(2, A, A), task, initial={A: one}, t_end=100.0).at(100.0)[A] for one in symmetric]
page.close("L = 2: the flow from random symmetric A ends at the best aI", ends, 3 * [float(best(2, 5, 30)) * np.eye(5)], 1e-6)

with themed() as theme:
    picture, axes = canvas(theme, 6.4, 3.4)
    times = np.geomspace(0.02, end, 200)
    for k, L in enumerate(LOOPS):
        axes.plot(runs[L].times[1:], runs[L].batch_loss[1:], ".", ms=2, color=SERIES[k], label=f"{L} loop" + "s" * (L > 1))
        axes.plot(times, flows[L].loss_at(times), color=theme.theory, ls="--", lw=1)
    axes.set(xlabel=TIME, ylabel=LOSS, xscale="log", yscale="log")
    axes.legend(loc="lower left")
page.figure(
    picture,
    "Dashed: gradient flow on the exact loss of 1 to 4 loops, d = 5 and n = 30. Dots: looped linear attention trained from A = 0 on 1,000 "
    "fresh prompts a step. More loops learn faster, and less is left.",
)
page.write()
