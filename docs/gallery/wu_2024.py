"""Wu, Zou, Chen, Braverman, Gu and Bartlett (2024): the risk of one-step attention after a number of pretraining tasks."""

import numpy as np
from iclflow.numerics import compile_expression
from iclflow.theory import E, Fixed, Gaussian, SampleCovariance, derive, expect, substitute
from iclflow.theory.notation import D, Lambda_hat, N, beta, matrix, noise_q, symmetric_matrix, vector, w, x_q, y_q, zeta
from iclflow.verify.figures.gallery import canvas
from iclflow.verify.figures.style import SERIES, themed
from page import Page
from sympy import Identity, Symbol, Trace, symbols

page = Page(
    __file__,
    title="Wu, Zou, Chen, Braverman, Gu, Bartlett (2024): how many pretraining tasks",
    paper="Jingfeng Wu, Difan Zou, Zixiang Chen, Vladimir Braverman, Quanquan Gu, Peter Bartlett: *How many pretraining tasks are needed "
    "for in-context learning of linear regression?*, ICLR 2024",
    link="https://arxiv.org/abs/2310.08391",
    result="SGD on one-step attention, one prompt for each of $T$ tasks, comes within a bias and a variance in proportion to "
    "$D_{\\rm eff}/T_{\\rm eff}$ of the least risk.",
    verdict="Theorem 3.1 holds exactly. The mean risk after $T$ tasks is computed exactly as well, for every $H$: the bound of Theorem 4.1 "
    "holds with the constant 3. The constant $c$ in its step size must be above 52.5, which $d=N=1$ needs for the risk to stay finite.",
)
H, e_i, e_j = symmetric_matrix("H", D, latex="H"), vector("e_i", D), vector("e_j", D)
Gamma, Delta = matrix("Gamma", D, latex=r"\Gamma"), matrix("Delta", D, latex=r"\Delta")
Gamma_star = matrix("Gamma_star", D, latex=r"\Gamma^*_N")
psi, sigma, gamma, T = symbols("psi sigma gamma T", positive=True)
D_eff, T_eff, trace = Symbol(r"D_{\rm eff}"), Symbol(r"T_{\rm eff}"), Symbol(r"\operatorname{tr}H")
SETTING = (
    SampleCovariance(Lambda_hat, H, N),
    Gaussian(x_q, covariance=H),
    Gaussian(w, covariance=psi**2 * Identity(D)),
    Gaussian(zeta, covariance=sigma**2 / N * Lambda_hat),  # what label noise adds to X'y/N, given the context
    Gaussian(noise_q, covariance=sigma**2),
    Fixed(beta, Lambda_hat * w + zeta),
    Fixed(y_q, w.T * x_q + noise_q),
)

page.text(r"""
Tokens $\mathcal{N}(0,H)$, tasks $\mathcal{N}(0,\psi^2I)$, label noise $\sigma^2$; the prediction is $x^\top\Gamma X^\top y/N$ and
$\mathcal{R}_N(\Gamma)$ its mean squared error. SGD starts from $\Gamma_0=0$ and sees one prompt for each task:
$\Gamma_t=\Gamma_{t-1}-\frac{\gamma_t}{2}\nabla(\hat y-y)^2$, with steps $\gamma_t=\gamma_0/2^\ell$ halved after every
$T/\log_2 T$ tasks. Here $X^\top y/N=\boldsymbol\beta$, $x=\boldsymbol x_q$, $d=D$. The text of the paper could not be had:
its theorems are stated from memory, and were not compared with the print.
""")
shrinks = (Trace(H) + sigma**2 / psi**2) / N * Identity(D)
inverse = shrinks + (N + 1) / N * H
moment = page.published("Theorem 3.1", r"\tilde H_N", psi**2 * H * inverse)
best = page.published("Theorem 3.1", r"\Gamma^*_N", inverse.I)
least = page.published("Theorem 3.1", r"\min\mathcal{R}_N", sigma**2 + psi**2 * Trace(H * best * (shrinks + H / N)))
excess = Trace(H * (Gamma - best) * moment * (Gamma - best).T)
variance = page.published(
    r"Theorem 4.1: if $\gamma_0\leq 1/(c\operatorname{tr}H\operatorname{tr}\tilde H_N)$, then $\mathbb{E}\,\mathcal{R}_N(\Gamma_T)-"
    r"\min\mathcal{R}_N\lesssim\langle H\tilde H_N,(\prod_t(I-\gamma_tH\tilde H_N)\Gamma^*_N)^2\rangle+V$, with $T_{\rm eff}=T/\log_2T$, "
    r"$D_{\rm eff}=\sum_{ij}\min(1,T_{\rm eff}^2\gamma_0^2\lambda_i^2\tilde\lambda_j^2)$ and",
    "V",
    (psi**2 * trace + sigma**2) * D_eff / T_eff,
    wrong=(psi**2 * trace + sigma**2) * D_eff / T_eff**2,
)

# Derive
risk = derive(E((y_q - x_q.T * Gamma * beta) ** 2, SETTING)).expect()
step = Delta + gamma * x_q * (y_q - x_q.T * (Gamma_star + Delta) * beta) * beta.T  # of Delta = Gamma_t - Gamma*
square = expect(substitute((e_i.T * Delta * e_j) ** 2, {Delta: step}), SETTING)  # of an entry, in the eigenbasis of H
drift = derive(E(step, SETTING)).expect()

# Compare
page.derived(risk, "the risk of any $\\Gamma$")
page.exact("Theorem 3.1: the second moment of X'y/N", expect(beta * beta.T, SETTING), moment)
page.exact("Theorem 3.1: the risk is its minimum and a square around Gamma*", risk.right, least + excess)
moved = psi**2 * H**2 - H * (Gamma_star + Delta) * moment
page.exact("A step moves the mean along minus the gradient of the risk", drift.right, Delta + gamma * moved)
page.text(rf"""
Given $\Delta=\Gamma_t-\Gamma^*_N$, the mean square of an entry after the next step is a polynomial of {len(square.terms)} terms,
quadratic in $\Delta$ and exact. Coordinates of the query can be flipped in sign, so in the eigenbasis of $H$ only the squares of entries
and their means enter: these numbers with a linear recursion give the mean risk after any number of tasks.
""")
one_step = compile_expression(square, (Delta, e_i, e_j, Gamma_star, H, N, psi, sigma, gamma))
moments = compile_expression((moment, best), (H, N, psi, sigma))
scatter = compile_expression(variance, (D_eff, T_eff, trace, psi, sigma))


def recursion(h: np.ndarray, gamma: float, *numbers: float) -> np.ndarray:
    """The linear map of one step on the mean squares of Delta's entries, the means of its entries, and 1, read off at unit matrices."""
    d, (moment, best) = len(h), moments(np.diag(h), *numbers)
    unit = np.eye(d * d).reshape(-1, 1, d, d)
    rows, columns = np.repeat(np.eye(d), d, 0)[:, :, None], np.tile(np.eye(d), (d, 1))[:, :, None]
    nought, up, down = (one_step(at, rows, columns, best, np.diag(h), *numbers, gamma) for at in (0 * unit[0], unit, -unit))
    squares = np.vstack([(up + down) / 2 - nought, (up - down) / 2, nought]).T
    means = np.hstack([np.zeros((d * d, d * d)), np.diag(1 - gamma * np.outer(h, np.diag(moment)).ravel()), np.zeros((d * d, 1))])
    return np.vstack([squares, means, np.eye(1, 2 * d * d + 1, 2 * d * d)])


def phases(tasks: int, first: float) -> list[tuple[int, float]]:
    """How many tasks are taken at which step size."""
    length = tasks // int(np.log2(tasks))
    return [(min(length, tasks - begin), first / 2**k) for k, begin in enumerate(range(0, tasks, length))]


def after(tasks: int, h: np.ndarray, first: float, *numbers: float) -> tuple[float, float]:
    """The exact mean excess risk after T tasks, and the bound of Theorem 4.1, as N, psi and sigma."""
    d, (moment, best) = len(h), moments(np.diag(h), *numbers)
    rates, state = np.outer(h, np.diag(moment)), np.concatenate([best.ravel() ** 2, -best.ravel(), [1.0]])
    kept, effective = best, tasks / np.log2(tasks)
    for steps, gamma in phases(tasks, first):
        state = np.linalg.matrix_power(recursion(h, gamma, *numbers), steps) @ state
        kept = kept * (1 - gamma * rates) ** steps
    directions = np.minimum(1, (effective * first * rates) ** 2).sum()
    return rates.ravel() @ state[: d * d], np.sum(rates * kept**2) + scatter(directions, effective, h.sum(), *numbers[1:])


def largest(h: np.ndarray, *numbers: float) -> float:
    """1/(tr H tr H_N), the unit of step sizes."""
    return 1 / (h.sum() * np.trace(moments(np.diag(h), *numbers)[0]))


rng, exact, bound = np.random.default_rng(0), [], []
for _ in range(150):
    spread, h = 10 ** rng.uniform(-1, 1), 10 ** rng.uniform(-2, 0, int(rng.integers(1, 5)))
    numbers = (int(10 ** rng.uniform(0, 3)), spread, spread * 10 ** rng.uniform(-2, 1))
    risks = after(int(10 ** rng.uniform(1, 6)), h, largest(h, *numbers) / 10 ** rng.uniform(2, 4), *numbers)
    exact, bound = [*exact, risks[0]], [*bound, risks[1]]
page.below("Theorem 4.1: the exact excess risk, against 3 times the bound, c from 100 to 10,000", exact, 3 * np.array(bound))
alone = (1, 1.0, 0.0)  # N = 1, no noise
growth = recursion(np.ones(1), largest(np.ones(1), *alone) / 52.5, *alone)[0, 0]
page.close("d = N = 1 without noise: the factor of the mean square in a step of c = 52.5", growth, 1, 1e-12)
flat, steep, setting = np.ones(4), np.arange(1, 5) ** -2.0, (10, 1.0, 0.5)
counts = 2 ** np.arange(14, 21)
left = [after(int(tasks), flat, largest(flat, *setting) / 20, *setting)[0] for tasks in counts]
page.rate("H = I: the exact excess risk in T_eff", counts / np.log2(counts), left, -1, 0.05)


# Simulate
def simulate(tasks: int, h: np.ndarray, first: float, length: int, spread: float, noise: float, runs: int = 400) -> tuple[float, float]:
    """The mean excess risk of SGD over runs, and its standard error."""
    d, (moment, best) = len(h), moments(np.diag(h), length, spread, noise)
    weights = np.zeros((runs, d, d))
    for steps, gamma in phases(tasks, first):
        for _ in range(steps):
            x, task = rng.standard_normal((runs, length + 1, d)) * np.sqrt(h), spread * rng.standard_normal((runs, d, 1))
            y = (x @ task)[..., 0] + noise * rng.standard_normal((runs, length + 1))
            context, query = np.einsum("rn,rnd->rd", y[:, :-1], x[:, :-1]) / length, x[:, -1]
            error = y[:, -1] - np.einsum("ri,rij,rj->r", query, weights, context)
            weights += gamma * error[:, None, None] * query[:, :, None] * context[:, None, :]
    risks = np.einsum("ij,rij->r", np.outer(h, np.diag(moment)), (weights - best) ** 2)
    return risks.mean(), risks.std() / np.sqrt(runs)


trained = 2 ** np.arange(5, 12)
with themed() as theme:
    picture, axes = canvas(theme, 6.4, 3.4)
    for color, (name, h) in zip(SERIES, (("$H=I$", flat), (r"$\lambda_i=1/i^2$", steep)), strict=False):
        first = largest(h, *setting) / 20
        curve = np.array([after(int(tasks), h, first, *setting) for tasks in 2 ** np.arange(4, 19)])
        dots = np.array([simulate(int(tasks), h, first, *setting) for tasks in trained])
        theory = curve[1 : 1 + len(trained), 0]
        page.sampled(f"SGD, {name}: its mean risk after 32 to 2,048 tasks", dots[:, 0], dots[:, 1], theory)
        axes.errorbar(trained, dots[:, 0], 2 * dots[:, 1], fmt="o", ms=4, color=color, label=f"SGD, {name}")
        axes.plot(2 ** np.arange(4, 19), curve[:, 0], color=theme.theory, ls="--", lw=1)
        axes.plot(2 ** np.arange(4, 19), curve[:, 1], color=color, lw=0.8, alpha=0.6)
    axes.set(xlabel="pretraining tasks $T$", ylabel=r"$\mathbb{E}\,\mathcal{R}_N(\Gamma_T)-\min\mathcal{R}_N$", xscale="log", yscale="log")
    axes.legend()
page.figure(
    picture,
    "Dashed: the exact mean excess risk after T tasks, d = 4, N = 10. Dots: SGD, mean of 400 runs with 2 standard errors. Thin lines: bias "
    "plus variance of Theorem 4.1, with constant 1. A steep spectrum is learned sooner in part, later as a whole.",
)
page.write()
