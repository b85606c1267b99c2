"""Lu, Letey, Zavatone-Veth, Maiti and Pehlevan (2025): in-context learning from a finite number of tasks, in high dimension."""

import json
from pathlib import Path

import numpy as np
from iclflow.numerics import compile_expression
from iclflow.theory import E, Fixed, Gaussian, SampleCovariance, TracePolynomial, derive, expect, substitute
from iclflow.theory.calculus.rewriting import rewrite
from iclflow.theory.notation import matrix, symmetric_matrix, vector
from iclflow.verify.figures.gallery import canvas
from iclflow.verify.figures.style import SERIES, themed
from page import Page
from sympy import Identity, Rational, Symbol, Trace, ZeroMatrix, diff, expand, limit, oo, series, sqrt, symbols

page = Page(
    __file__,
    title="Lu, Letey, Zavatone-Veth, Maiti, Pehlevan (2025): a transition in task diversity",
    paper="Yue Lu, Mary Letey, Jacob Zavatone-Veth, Anindita Maiti, Cengiz Pehlevan: *Asymptotic theory of in-context learning by "
    "linear attention*, PNAS 122, 2025",
    link="https://arxiv.org/abs/2405.11751",
    result="The error on new tasks in high dimension, in closed form; with long contexts it falls to the noise as the number of tasks "
    "reaches the dimension.",
    verdict="The error of any $\\Gamma$ at finite size and the limit for many prompts are exact. The terms of finite $\\tau$ agree with "
    "simulation, and with the authors' printed runs to 2% from $\\kappa=1$. With five tasks in 50 dimensions the error is 18% over the "
    "limit, all by the last column of $\\Gamma$. One function of the authors' code has $1+\\rho^2$ where $(1+\\rho)^2$ is right.",
)
d, ell, k = symbols("d ell k", integer=True, positive=True)
alpha, kappa, tau, rho, inverse, x = symbols("alpha kappa tau rho epsilon x", positive=True)
X, w, epsilon = matrix("X", d, ell, latex="X"), vector("w", d, latex="w"), vector("epsilon", ell, latex=r"\epsilon")
query, noise, R = vector("x", d, latex="x"), matrix("epsilon_q", 1, 1, latex=r"\epsilon_q"), symmetric_matrix("R_k", d, latex="R_k")
DATA = (
    Gaussian(X, covariance=Identity(d) / d),
    Gaussian(epsilon, covariance=rho * Identity(ell)),
    Gaussian(query, covariance=Identity(d) / d),
    Gaussian(noise, covariance=rho),
)
y, target = X.T * w + epsilon, w.T * query + noise
h, s = d / ell * X * y, y.T * y / ell
TASK = (*DATA, Fixed(w, w))  # given the task

page.text(r"""
A prompt has $\ell$ labelled tokens $\mathcal{N}(0, I/d)$ and a query $x$; $y=w^\top x+\epsilon$ with noise of variance $\rho$.
Attention reads $H_Z=x\,(h^\top, s)$ with $h=\frac d\ell\sum_iy_ix_i$ and $s=\frac1\ell\sum_iy_i^2$, and predicts
$\operatorname{tr}(\Gamma H_Z^\top)$, with $\Gamma$ of size $d\times(d+1)$, trained by least squares on $n$ prompts. There are $k$ tasks,
vectors with $\lVert w\rVert^2=d$, of mean $b_k$ and second moment $R_k$. In the limit $\alpha=\ell/d$, $\kappa=k/d$ and $\tau=n/d^2$ are
held. The letters are the paper's. Its formulas are taken from the authors' code,
[icl-asymptotic](https://github.com/Pehlevan-Group/icl-asymptotic), in which they are typed; the text could not be had.
""")
G, g, b = matrix("G", d, latex="G"), vector("g", d, latex="g"), vector("b_k", d, latex="b_k")  # Gamma = (G, g)
ratio, m, bend = symbols("x_* m k_*", positive=True)
spread, corner = 1 + 2 / ell, (1 + rho) * (1 + 2 / ell)
error = page.published(
    r"the error of any $\Gamma=(G,g)$ on the $k$ tasks, at finite size",
    "e",
    1
    + rho
    - 2 / d * (Trace(G * R) + (1 + rho) * Trace(g.T * b))
    + (1 + rho) / d * (Trace(G * G.T) / alpha + (1 + 1 / ell) / (1 + rho) * Trace(G * R * G.T))
    + (1 + rho) / d * (2 * spread * Trace(g.T * G * b) + corner * Trace(g.T * g)),
)
resolvent = page.published(
    r"the limit of $\frac1d\operatorname{tr}(R_k+xI)^{-1}$",
    r"\mathcal{M}_\kappa(x)",
    2 / (x + 1 - 1 / kappa + sqrt((x + 1 - 1 / kappa) ** 2 + 4 * x / kappa)),
)
many = page.published(
    r"the limit of the error on new tasks for $\tau>1$, without ridge: with $x_*=(1+\rho)/\alpha$, $m=\mathcal{M}_\kappa(x_*)$, "
    r"$k_*=(1-\kappa m^2/(\kappa+m)^2)^{-1}$",
    r"e^{\rm ICL}",
    (bend - 1 / (tau - 1)) * (1 + ratio) * (ratio * m) ** 2
    + (3 - 2 * tau) / (tau - 1) * m * ratio**2
    + ((1 + rho) / (tau - 1) * m + 1) * ratio
    + rho * m / (tau - 1)
    + rho,
)
below = tau * (1 + ratio) / (1 - tau) * (1 - tau * (1 - m) ** 2 - (ratio - rho) / ratio * m) - 2 * tau * (1 - m) + rho + 1
few = page.published(r"and for $\tau<1$, where $m=x_*\mathcal{M}_{\kappa/\tau}(x_*)$", r"e^{\rm ICL}", below, wrong=Rational(6, 5) * below)

# Derive
whole = derive(E((target - query.T * (G * h + g * s)) ** 2, TASK)).expect()
gaussian = derive(E((target - query.T * (G * h + g * s)) ** 2, (*DATA, Gaussian(w)))).expect()
slope = derive(error).gradient(G)
learned = R * (R + ratio * Identity(d)).I  # in the limit, where g drops out: its part of the error is of order 1/k
moments = {j: expect(Trace(R**j), [SampleCovariance(R, Identity(d), k)]).to_sympy() / d for j in range(1, 6)}
bent = Symbol("m_2", positive=True)  # tr (R_k + x I)^-2 / d; m is tr (R_k + x I)^-1 / d, and G = I - x (R_k + x I)^-1
new_tasks = 1 + rho - 2 * (1 - ratio * m) + (1 + ratio) * (1 - 2 * ratio * m + ratio**2 * bent)

# Compare
page.derived(whole, "the error given one task of any length; its mean over the tasks is that over $R_k$ and $b_k$")
on_sphere = rewrite(whole.right, {w.T * w: d})
page.exact("The error of any Gamma at finite size", on_sphere, rewrite(error.subs({R: w * w.T, b: w, alpha: ell / d}), {w.T * w: d}))
long = substitute(slope.right, {g: ZeroMatrix(d, 1)}).to_sympy().subs({ell: 1 / inverse, alpha: (1 + rho) / ratio}).subs(inverse, 0)
page.exact("The error is stationary at the learned G, for long contexts", long.subs(G, learned), ZeroMatrix(d, d))
tail = series(resolvent.subs(x, 1 / inverse), inverse, 0, 7).removeO()
for j, moment in moments.items():
    here = limit(expand(moment.subs(k, kappa * d)), d, oo)
    page.exact(f"The resolvent: E tr R_k^{j} / d of Gaussian tasks in the limit", here, (-1) ** j * tail.coeff(inverse, j + 1))
falls = diff(resolvent, x)
page.exact("k_* m^2 is minus the derivative of the resolvent", resolvent**2 / (1 - kappa * (resolvent / (kappa + resolvent)) ** 2), -falls)
page.exact("The error on new tasks, for many prompts", limit(many, tau, oo), new_tasks.subs(bent, bend * m**2))
at = resolvent.subs(x, (1 + rho) / alpha)
plateau = new_tasks.subs({bent: -falls.subs(x, (1 + rho) / alpha), m: at, ratio: (1 + rho) / alpha})
for value in (Rational(1, 2), 1, 2):
    ends = limit(plateau.subs(kappa, value), alpha, oo)
    page.exact(f"The transition, kappa = {value}: long contexts leave rho + max(1 - kappa, 0)", ends, rho + max(1 - value, 0))
page.text(r"""
New tasks are drawn from $\mathcal{N}(0, I)$. Their error, at finite size, is exactly:
""")
page.derived(gaussian, "the error on a new task")
corner_of = TracePolynomial(gaussian.right).to_sympy().coeff(Trace(g.T * g))
s_squared = limit(d * expand(corner_of.subs(ell, alpha * d)), d, oo)
page.exact("New tasks: the weight of g'g in the limit is (1 + rho)^2", s_squared, (1 + rho) ** 2)
page.differs("Another function of the authors' code, e_ICL_g_tr, types 1 + rho^2 for it", s_squared, 1 + rho**2)

# The learned Gamma at finite size, for many prompts
numbers = json.loads((Path(__file__).resolve().parents[2] / "tests/data/gallery/lu_2025.json").read_text("utf-8"))
of_gamma = compile_expression(gaussian.right, (G, g, d, ell, rho))
limits = {"many": compile_expression(plateau, (alpha, kappa, rho))}
formulas = {"more": many.subs(bend, 1 / (1 - kappa * (m / (kappa + m)) ** 2)), "fewer": few}
inner = {"more": resolvent, "fewer": x * resolvent.subs(kappa, kappa / tau)}
for name, formula in formulas.items():
    value = formula.subs(m, inner[name].subs(x, ratio)).subs(ratio, (1 + rho) / alpha)
    limits[name] = compile_expression(value, (alpha, kappa, rho, tau))
rng = np.random.default_rng(0)


features = [expect(one, TASK) for one in (h * h.T, h * s, s * s, d * query * target * h.T, d * query * target * s)]
of_task = compile_expression(tuple(features), (w, d, ell, rho))


def least_squares(tasks: np.ndarray, length: int, noise: float, column: bool = True) -> float:
    """The error on new tasks of the best Gamma for these tasks, or of the best without its last column."""
    squares, mixed, corner, up, right = (np.mean(one, axis=0) for one in of_task(tasks[:, :, None], tasks.shape[1], length, noise))
    Gamma = np.hstack([up, column * right]) @ np.linalg.inv(np.block([[squares, column * mixed], [column * mixed.T, corner]]))
    return of_gamma(Gamma[:, :-1], Gamma[:, -1:], tasks.shape[1], length, noise)


def of_tasks(size: int, count: int, length: int, noise: float, draws: int, column: bool = True) -> np.ndarray:
    return np.array([least_squares(rng.standard_normal((count, size)), length, noise, column) for _ in range(draws)])


few_tasks = [of_tasks(50, 5, 5000, 0.25, 20, column).mean() for column in (True, False)]
page.below("Five tasks in 50 dimensions: the exact error is over the limit by 15%", 1.15 * limits["many"](100.0, 0.1, 0.25), few_tasks[0])
page.close("The same without the last column of Gamma, against the limit", few_tasks[1], limits["many"](100.0, 0.1, 0.25), 1e-3)
sizes = np.array([15, 30, 60, 120])
means = [of_tasks(one, 2 * one, one, 0.25, 40).mean() for one in sizes]
page.rate("Finite size against the limit, kappa = 2, alpha = 1, many prompts", sizes, means - limits["many"](1.0, 2.0, 0.25), -1, 0.1)
authors = {one: icl for one, icl in zip(numbers["kappa"], numbers["icl"], strict=True) if 1 <= one <= 50}
ours = [
    of_tasks(50, int(50 * one), 5000, 0.25, 4).mean() + limits["more"](100.0, one, 0.25, 100.0) - limits["many"](100.0, one, 0.25)
    for one in authors
]
page.close("The authors' printed runs, d = 50, kappa = 1 to 50, tau = 100", list(authors.values()), ours, 0.02)


# Simulate
def train(size: int, prompts: float, noise: float = 0.1) -> float:
    """The error on new tasks of Gamma that least squares finds on tau d^2 prompts; alpha = 2, kappa = 3/2."""
    count, length = int(prompts * size**2), 2 * size
    tasks = rng.standard_normal((3 * size // 2, size))
    tasks *= np.sqrt(size) / np.linalg.norm(tasks, axis=1, keepdims=True)
    tokens = rng.standard_normal((count, length + 1, size)) / np.sqrt(size)
    labels = np.einsum("nld,nd->nl", tokens, tasks[rng.integers(len(tasks), size=count)])
    labels += np.sqrt(noise) * rng.standard_normal(labels.shape)
    context = np.einsum("nld,nl->nd", tokens[:, :-1], labels[:, :-1]) * size / length
    context = np.hstack([context, (labels[:, :-1] ** 2).mean(1, keepdims=True)])
    seen = (tokens[:, -1, :, None] * context[:, None, :]).reshape(count, -1)
    flat = seen.T @ np.linalg.solve(seen @ seen.T, labels[:, -1]) if prompts < 1 else np.linalg.solve(seen.T @ seen, seen.T @ labels[:, -1])
    return of_gamma(flat.reshape(size, -1)[:, :-1], flat.reshape(size, -1)[:, -1:], size, length, noise)


for name, prompts in (("fewer", 0.5), ("more", 4.0)):
    means = [np.mean([train(one, prompts) for _ in range(runs)]) for one, runs in ((8, 40), (24, 12))]
    ends = limits[name](2.0, 1.5, 0.1, prompts)
    away = np.abs(np.array(means) - ends)
    page.below(f"Least squares on tau d^2 prompts, tau = {prompts:g}: nearer to the limit at d = 24 than at 8", away[1:], away[:-1])
    page.close(f"The same, at d = 24, tau = {prompts:g}", means[-1], ends, 0.1)

with themed() as theme:
    picture, axes = canvas(theme, 6.4, 3.4)
    fine, coarse = np.geomspace(0.08, 12, 300), np.geomspace(0.1, 10, 13)
    for color, ratio_of_lengths in zip(SERIES, (1, 10, 100), strict=False):
        axes.plot(fine, limits["many"](float(ratio_of_lengths), fine, 0.25), color=theme.theory, ls="--", lw=1)
        dots = [of_tasks(50, int(50 * one), 50 * ratio_of_lengths, 0.25, 4).mean() for one in coarse]
        axes.plot(np.floor(50 * coarse) / 50, dots, "o", ms=4, color=color, label=rf"$d=50$, $\alpha={ratio_of_lengths}$")
    axes.plot(numbers["kappa"][:5], numbers["icl"][:5], "x", color=theme.ink, label=r"authors' runs, $\alpha=\tau=100$")
    axes.set(xlabel=r"task diversity $\kappa=k/d$", ylabel="error on new tasks", xscale="log", ylim=(0, 2))
    axes.legend(loc="lower left")
page.figure(
    picture,
    "Dashed: the published limit for many prompts, rho = 1/4. Dots: the exact error of the best Gamma at d = 50, mean of four draws of "
    "tasks. Crosses: numbers that the authors' code printed, for 100 d^2 prompts. The kink at kappa = 1 sharpens with the context.",
)
page.write()
