"""Mainali and Teixeira (2025): the flow of linear attention with vector outputs, mode by mode."""

import numpy as np
from iclflow.numerics import compile_expression
from iclflow.theory import E, Model, TracePolynomial, derive, explicit, substitute
from iclflow.theory.notation import D, Lambda, Lambda_hat, N, beta, matrix, vector, x_q
from iclflow.verify.figures.gallery import canvas
from iclflow.verify.figures.style import SERIES, TIME, themed
from page import Page
from scipy.integrate import solve_ivp
from sympy import Matrix, Symbol, diag, diff, exp, eye, limit, oo, sqrt, symbols

page = Page(
    __file__,
    title="Mainali, Teixeira (2025): one logistic curve for each mode",
    paper="Nischal Mainali, Lucas Teixeira: *Exact learning dynamics of in-context learning in linear transformers and its application to "
    "non-linear transformers*, arXiv 2504.12916",
    link="https://arxiv.org/abs/2504.12916",
    result="With vector outputs, and tasks that share the eigenbasis of the tokens, each mode is learned along its own logistic curve.",
    verdict="The published flow, loss and conservation law of each mode are those of long contexts, and of white tokens. At finite $N$ "
    "sampling couples the modes at order $1/N$: only the sum of the conserved quantities is conserved, and the published end is not at "
    "rest.",
)
e, p, q = vector("e", D), Symbol("p", real=True), matrix("q_1", D, latex="q_1")
S, P, Q = symbols("s_1:4", positive=True), symbols("p_1:4", real=True), symbols("q_1:4", real=True)
s, one, a, a_0, t, trace = symbols(r"s_alpha s^\infty_\alpha a_alpha a_0 t T", positive=True)

page.text(r"""
One layer $f(Z)=Z+W^P\frac{ZZ^\top}{N}W^QZ$ learns $y=Wx$ in $\mathbb{R}^d$. The tasks $W=U\Lambda U^\top$ have the eigenvectors of
the tokens' covariance $USU^\top$ and independent eigenvalues of variance 1; the prediction is $p_2W\hat\Sigma_xq_1x_q$, and $p_2$, $q_1$
stay diagonal in this basis, with entries $p_\alpha$, $q_\alpha$. Half the squared error is descended; time is in units of $1/(\eta P)$, the
step size and the number of tasks. The letters are the paper's, and $T=\operatorname{tr}S$. Its text could not be had: the equations are
taken from a detailed reading of version 2 by others, and the first version was not compared.
""")
p_a, q_a = symbols("p_alpha q_alpha", real=True)
finite = page.published(r"after equation (12)", r"s^\infty_\alpha", ((N + 1) * s + trace) / N)
rate_p = page.published("equations (9) to (12)", r"\frac{dp_\alpha}{dt}", s**2 * q_a * (1 - p_a * q_a * one))
rate_q = page.published("equations (9) to (12)", r"\frac{dq_\alpha}{dt}", s**2 * p_a * (1 - p_a * q_a * one))
curve = page.published(
    r"equation (13), from $p_\alpha=q_\alpha$, with $a_\alpha=p_\alpha q_\alpha$",
    r"a_\alpha(t)",
    a_0 / one / (a_0 + (1 / one - a_0) * exp(-2 * s**2 * t)),
)
share = page.published("equation (14), the part of a mode in the loss", r"\mathcal{L}_\alpha", s * (s * a**2 * one - 2 * s * a + 1) / 2)


def of_mode(formula, k: int):
    """A published formula for mode k of three."""
    here = {s: S[k], one: finite.subs({s: S[k], trace: sum(S)}), p_a: P[k], q_a: Q[k], a: P[k] * Q[k]}
    return formula.subs(here)


# Derive: the error of the output along a unit eigenvector e, for an eigenvalue 1 of the task
along = derive(E((e.T * x_q - p * e.T * Lambda_hat * q * x_q) ** 2)).expect()
axes_of = eye(3)
loss = sum(explicit(substitute(along.right, {p: P[k]}), {e: axes_of[:, k], Lambda: diag(*S), q: diag(*Q)}, D=3) for k in range(3)) / 2
flow_p, flow_q = [-diff(loss, one_p) for one_p in P], [-diff(loss, one_q) for one_q in Q]
v, U = Symbol("v", real=True), matrix("U", D)
merged = Model(v * beta.T * U * x_q, (v, U))

# Compare
page.derived(along, "twice the part of a mode in the loss; the last term couples it to all others")
equal = {**dict.fromkeys(S, S[0]), **dict.fromkeys(P, P[0]), **dict.fromkeys(Q, Q[0])}
for name, ours, theirs in (("p", flow_p[0], of_mode(rate_p, 0)), ("q", flow_q[0], of_mode(rate_q, 0))):
    page.exact(f"The flow of {name} in long contexts", limit(ours, N, oo), limit(theirs, N, oo))
    page.exact(f"The flow of {name} for white tokens and equal modes", ours.subs(equal), theirs.subs(equal))
    page.differs(f"The flow of {name} at finite N, otherwise", ours, theirs)
whole = sum(of_mode(share, k) for k in range(3))
page.exact("The loss in long contexts", limit(loss, N, oo), limit(whole, N, oo))
page.exact("The loss for white tokens and equal modes", loss.subs(equal), whole.subs(equal))
page.exact("The logistic curve solves the published flow from p = q", diff(curve, t), 2 * s**2 * curve * (1 - curve * one))
page.exact("The logistic curve starts at a_0", curve.subs(t, 0), a_0)
balance = [P[k] * flow_p[k] - Q[k] * flow_q[k] for k in range(3)]
page.exact("The sum of p^2 - q^2 is conserved at every N", sum(balance), 0)
page.exact("p^2 - q^2 of one mode is conserved in long contexts", limit(balance[0], N, oo), 0)
page.differs("p^2 - q^2 of one mode at finite N", balance[0], 0)
resting = {letter: 1 / sqrt(of_mode(one, k)) for k in range(3) for letter in (P[k], Q[k])}
page.differs("The published end, p q = 1/s_infinity, as a fixed point at finite N", flow_p[0].subs(resting), 0)
page.exact("The same, in long contexts", limit(flow_p[0], N, oo).subs(resting).subs(N, oo), 0)
page.text(r"""
**Beside iclflow's models.** Labels that are numbers leave one value weight $v$ for $p_2$. With one token dimension the flows are the same;
with more, all modes of merged attention share $v$ and its loss drops once, where $p_2$ gives each mode a weight and a time of its own. The
conserved quantity of merged attention is $v^2-\lVert U\rVert^2$, the counterpart of the sum over modes above.

Songtao Lu, Yingdong Lu and Tomasz Nowicki, *Dynamical behaviors of the gradient flows for in-context learning*
([arXiv 2412.16683](https://arxiv.org/abs/2412.16683)), derive the flow of linear in-context learning in general, with invariants, an
optimum and saddle points for two cases. Only the abstract could be had: nothing of it was compared. The flow, this invariant and the fixed
points of merged attention are equations (10) to (14b) and (T6) in [the table](../equations.md).
""")
alone = {one: finite.subs(trace, s), p_a: v, q_a: Symbol("u", real=True)}
in_one = {U: Matrix([[Symbol("u", real=True)]]), Lambda: Matrix([[s]])}
page.exact("One mode alone is merged attention with D = 1", explicit(merged.flow()[v], in_one, D=1), rate_p.subs(alone))
kept = v * merged.flow()[v] - TracePolynomial(U.T * merged.flow()[U]).trace()
page.exact("Merged attention: v^2 - |U|^2 is conserved", kept, 0)

# Simulate
spectrum, end, start, rng = np.array([1.0, 0.5, 0.25]), 80.0, 0.1, np.random.default_rng(0)
field = compile_expression(Matrix([*flow_p, *flow_q]), (*S, *P, *Q, N))
logistic = compile_expression(curve.subs(one, finite), (s, a_0, t, trace, N))


def flow(length: int, times: np.ndarray) -> np.ndarray:
    """The strengths a of the modes along the exact flow."""
    run = solve_ivp(
        lambda _, state: field(*spectrum, *state, length)[:, 0], (0, end), np.full(6, start), "LSODA", times, rtol=1e-9, atol=1e-12
    )
    return run.y[:3] * run.y[3:]


def published(length: int, times: np.ndarray) -> np.ndarray:
    return np.stack([logistic(mode, start**2, times, spectrum.sum(), length) for mode in spectrum])


def descend(length: int, step: float = 0.025, batch: int = 1500) -> tuple[np.ndarray, np.ndarray]:
    """SGD on whole matrices p_2 and q_1; the diagonals of both, multiplied, every 40 steps."""
    p_2, q_1, strengths, count = start * np.eye(3), start * np.eye(3), [], int(end / step)
    for _ in range(count):
        x = rng.standard_normal((batch, length + 1, 3)) * np.sqrt(spectrum)
        task, context, query = rng.standard_normal((batch, 3)), x[:, :-1], x[:, -1]
        read = task * np.einsum("bni,bnj,jk,bk->bi", context, context, q_1, query, optimize=True) / length  # W Sigma_x q_1 x_q
        error = task * query - read @ p_2.T
        back = np.einsum("bni,bnj,bj->bi", context, context, task * (error @ p_2), optimize=True) / length
        p_2, q_1 = p_2 + step * error.T @ read / batch, q_1 + step * back.T @ query / batch
        strengths.append(np.diag(p_2) * np.diag(q_1))
    return step * np.arange(40, count + 1, 40), np.array(strengths)[39::40].T


times = np.linspace(0, end, 400)
lengths = np.array([100, 200, 400, 800])
apart = [np.abs(flow(int(n), times) - published(int(n), times)).max() for n in lengths]
page.rate("The distance of the published curves from the exact flow, in N", lengths, apart, -1, 0.1)
at, trained = descend(4)
page.close("SGD at N = 4 against the exact flow", trained, flow(4, at), 0.05)
page.below("and the published curves are further off it", np.abs(trained - flow(4, at)).max(), np.abs(trained - published(4, at)).max() / 2)

with themed() as theme:
    picture, axes = canvas(theme, 6.4, 3.4)
    for k, color in zip(range(3), SERIES, strict=False):
        axes.plot(at, trained[k], ".", ms=3, color=color, label=rf"SGD, $s_{k + 1}={spectrum[k]:g}$")
        axes.plot(times, flow(4, times)[k], color=theme.theory, ls="--", lw=1)
        axes.plot(times, published(4, times)[k], color=color, lw=0.8)
    axes.set(xlabel=TIME, ylabel=r"strength $p_\alpha q_\alpha$ of a mode")
    axes.legend(loc="lower right")
page.figure(
    picture,
    "Dots: SGD on whole matrices at N = 4, 1,500 prompts a step. Dashed: the exact flow. Thin lines: the published logistic curves, which "
    "leave out how sampling couples the modes.",
)
page.write()
