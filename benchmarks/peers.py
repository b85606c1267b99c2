"""The default flow by iclflow and by other integrators, in one run, at equal achieved error, with compile time apart.

    OMP_NUM_THREADS=1 python benchmarks/peers.py [--target 1e-6]

The flow is separate attention of rank one, D = 4, H = 5, N = 31, eigenvalues 0.4 0.3 0.2 0.1, initial scale 1e-2, through all
four drops. Each solver gets the loosest relative tolerance of a ladder, two a decade, at which the effective map at 400 times is
within the target of a reference (iclflow at rtol 1e-12); absolute tolerances scale with the initial weights for all. Times
are of the processor, the best of five. diffrax, torchdiffeq and heyoka are compared where they are installed.
"""

import argparse
import importlib.util
import time
from collections.abc import Callable

import numpy as np
from iclflow.numerics import QuadraticLoss, RegressionTask, SeparateWeights, gradient_flow
from iclflow.numerics.parametrizations.base import vector_field
from scipy.integrate import solve_ivp

TASK = RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_length=31)
LOSS = QuadraticLoss.population(TASK)
START = SeparateWeights.initialize(TASK, heads=5, scale=1e-2, rng=np.random.default_rng(0))
T_END = 3.5e4
TIMES = np.linspace(0.0, T_END, 400)
SCALE = float(np.sqrt(np.mean(START.flatten() ** 2)))
BATCH = 8  # runs of heyoka side by side
LADDER = 10.0 ** -np.arange(6, 13, 0.5)

# Given a relative tolerance, the flat weights at TIMES, and the seconds of compilation in the first call.
Solver = Callable[[float], tuple[np.ndarray, float]]


def maps(states: np.ndarray) -> np.ndarray:
    return np.array([START.unflatten(state).effective_map() for state in states])


def iclflow(rtol: float) -> tuple[np.ndarray, float]:
    return gradient_flow(LOSS, START, t_end=T_END, rtol=rtol).states_at(TIMES), 0.0


def iclflow_compiled() -> Solver:
    begun = time.process_time()
    gradient_flow(LOSS, START, t_end=1.0, method="compiled").states_at(0.5)
    built = time.process_time() - begun

    def solve(rtol: float) -> tuple[np.ndarray, float]:
        return gradient_flow(LOSS, START, t_end=T_END, rtol=rtol, method="compiled").states_at(TIMES), built

    return solve


def scipy_with(method: str) -> Solver:
    field = vector_field(LOSS, START)

    def solve(rtol: float) -> tuple[np.ndarray, float]:
        solution = solve_ivp(field, (0, T_END), START.flatten(), method=method, t_eval=TIMES, rtol=rtol, atol=rtol * SCALE)
        return solution.y.T, 0.0

    return solve


def torchdiffeq_with(method: str) -> Solver:
    import torch
    import torchdiffeq

    moments = TASK.loss_moments
    A, M, Q = (torch.tensor(part) for part in (moments.A, moments.M, moments.Q))

    def field(_t, y):
        v, k, q = y[:5], y[5:25].reshape(5, 4), y[25:].reshape(5, 4)
        G = A - M @ ((k * v[:, None]).T @ q) @ Q
        Gq = q @ G.T
        return torch.cat([(k * Gq).sum(1), (v[:, None] * Gq).ravel(), (v[:, None] * (k @ G)).ravel()])

    def solve(rtol: float) -> tuple[np.ndarray, float]:
        with torch.no_grad():
            y = torch.tensor(START.flatten())
            out = torchdiffeq.odeint(field, y, torch.tensor(TIMES), rtol=rtol, atol=rtol * SCALE, method=method)
        return out.numpy(), 0.0

    return solve


def diffrax_with(name: str) -> Solver:
    import diffrax
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    moments = TASK.loss_moments
    A, M, Q = (jnp.asarray(part) for part in (moments.A, moments.M, moments.Q))

    def field(_t, y, _args):
        v, k, q = y
        G = A - M @ ((k * v[:, None]).T @ q) @ Q
        Gq = q @ G.T
        return (k * Gq).sum(1), v[:, None] * Gq, v[:, None] * (k @ G)

    start = tuple(jnp.asarray(array.reshape(5, -1).squeeze()) for array in START.arrays)

    @jax.jit
    def integrate(rtol, y):
        return diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            getattr(diffrax, name)(),
            t0=0.0,
            t1=T_END,
            dt0=None,
            y0=y,
            saveat=diffrax.SaveAt(ts=jnp.asarray(TIMES)),
            stepsize_controller=diffrax.PIDController(rtol=rtol, atol=rtol * SCALE),
            max_steps=1_000_000,
            adjoint=diffrax.ForwardMode(),
        ).ys

    compiled: dict[str, float] = {}

    def solve(rtol: float) -> tuple[np.ndarray, float]:
        if not compiled:
            begun = time.process_time()
            program = integrate.lower(jnp.asarray(rtol), start).compile()
            compiled["seconds"] = time.process_time() - begun
            solve.program = program  # type: ignore[attr-defined]
        ys = jax.block_until_ready(solve.program(jnp.asarray(rtol), start))  # type: ignore[attr-defined]
        return np.concatenate([np.asarray(part).reshape(len(TIMES), -1) for part in ys], axis=1), compiled["seconds"]

    return solve


def heyoka_system() -> list:
    """The flow in heyoka's expressions."""
    import heyoka

    moments = TASK.loss_moments
    names = [f"y{i}" for i in range(45)]
    y = np.array(heyoka.make_vars(*names), dtype=object)
    v, k, q = y[:5], y[5:25].reshape(5, 4), y[25:].reshape(5, 4)
    # The covariance is diagonal: written with its eigenvalues, as one would by hand.
    B = [[sum((v[i] * k[i, b] * q[i, c] for i in range(5)), heyoka.expression(0.0)) for c in range(4)] for b in range(4)]
    A, M, Q = moments.A, np.diag(moments.M), np.diag(moments.Q)
    G = [[float(A[b, c]) - float(M[b] * Q[c]) * B[b][c] for c in range(4)] for b in range(4)]
    zero = heyoka.expression(0.0)
    Gq = [[sum((G[b][c] * q[i, c] for c in range(4)), zero) for b in range(4)] for i in range(5)]
    Gk = [[sum((G[b][c] * k[i, b] for b in range(4)), zero) for c in range(4)] for i in range(5)]
    rates = [sum((k[i, b] * Gq[i][b] for b in range(4)), zero) for i in range(5)]
    rates += [v[i] * Gq[i][b] for i in range(5) for b in range(4)]
    rates += [v[i] * Gk[i][c] for i in range(5) for c in range(4)]
    return list(zip(y.tolist(), rates, strict=True))


def heyoka_taylor() -> Solver:
    import heyoka

    system = heyoka_system()

    def solve(tol: float) -> tuple[np.ndarray, float]:
        begun = time.process_time()
        integrator = heyoka.taylor_adaptive(system, START.flatten().tolist(), tol=tol, compact_mode=True)
        built = time.process_time() - begun
        return np.array(integrator.propagate_grid(TIMES)[-1]), built

    return solve


def heyoka_batches(starts: np.ndarray, tol: float) -> tuple[np.ndarray, float, str]:
    """The same by heyoka in batches of eight, without compilation."""
    import heyoka

    begun = time.process_time()
    integrator = heyoka.taylor_adaptive_batch(heyoka_system(), starts[:BATCH].T.copy(), tol=tol, force_avx512=True)
    built, found = time.process_time() - begun, []
    grid = np.repeat(TIMES[:, None], BATCH, 1)
    for first in range(0, len(starts), BATCH):
        part = starts[first : first + BATCH]
        integrator.set_time(0.0)
        integrator.state[:, : len(part)] = part.T
        outcome = integrator.propagate_grid(grid)
        states = outcome[-1] if isinstance(outcome, tuple) else outcome
        found.append(np.moveaxis(states, 2, 0)[: len(part)].copy())
    return np.concatenate(found), time.process_time() - begun - built, f"after {built:.0f} s of compilation"


def compare(name: str, solve: Solver, reference: np.ndarray, target: float) -> str:
    compiling = 0.0
    for rtol in LADDER:
        states, compiled = solve(rtol)
        compiling = max(compiling, compiled)  # heyoka keeps what it compiled for a looser tolerance
        error = float(np.abs(maps(states) - reference).max()) if np.isfinite(states).all() else np.inf
        if error <= target:
            break
    else:
        return f"{name:<24} does not reach the target: error {error:.1e} at rtol {rtol:.0e}"
    runs: list[float] = []
    while len(runs) < 5 and sum(runs) < 10:
        begun = time.process_time()
        _, again = solve(rtol)
        elapsed = time.process_time() - begun
        runs.append(elapsed - again if name == "heyoka" else elapsed)
    return f"{name:<24} {rtol:>8.0e} {error:>10.1e} {min(runs):>10.4f} s {compiling:>10.2f} s"


def many(count: int, target: float) -> None:
    """Print the errors of all runs along the ladder until the worst is within the target, with the time of a run.

    The reference is the same flow at rtol 1e-13, in parts of 250 runs, which bounds its memory. heyoka comes first where it is installed,
    from the tolerance 1e-12 on.
    """
    starts = [SeparateWeights.initialize(TASK, heads=5, scale=1e-2, rng=np.random.default_rng(seed)) for seed in range(count)]
    parts = [starts[i : i + 250] for i in range(0, count, 250)]
    reference = np.concatenate([gradient_flow(LOSS, part, t_end=T_END, rtol=1e-13).effective_map_at(TIMES) for part in parts])
    solvers: list[tuple[str, np.ndarray, Callable]] = [("iclflow", LADDER[4:], lambda rtol: together(starts, rtol))]
    if importlib.util.find_spec("heyoka") is not None:
        flat = np.stack([start.flatten() for start in starts])
        solvers.insert(0, (f"heyoka in batches of {BATCH}", LADDER[12:], lambda tol: heyoka_batches(flat, tol)))
    for name, ladder, solve in solvers:
        for rtol in ladder:
            states, took, besides = solve(rtol)
            errors = np.abs(SeparateWeights.combine_many(*START.split(states.reshape(-1, 45))).reshape(reference.shape) - reference)
            worst = errors.max(axis=(1, 2, 3))
            print(
                f"{count} runs, {name}, rtol {rtol:.0e}: error at most {worst.max():.1e}, median {np.median(worst):.1e}, within the target "
                f"{np.mean(worst <= target):.1%}; a run takes {1e3 * took / count:.1f} ms with its {len(TIMES)} states, {besides}",
                flush=True,
            )
            del states, errors
            if worst.max() <= target:
                break


def together(starts: list[SeparateWeights], rtol: float) -> tuple[np.ndarray, float, str]:
    """The states (N, T, P) of many runs by iclflow, the seconds that they take, and what else is to say."""
    begun = time.process_time()
    runs = gradient_flow(LOSS, starts, t_end=T_END, rtol=rtol)
    flowed = time.process_time() - begun
    states = runs.states_at(TIMES)
    velocities, part = np.mean([run.statistics.evaluations for run in runs]), 1e3 * flowed / len(starts)
    return states, time.process_time() - begun, f"{part:.1f} ms without, and {velocities:.0f} velocities"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=float, default=1e-6, help="largest allowed error of the effective map")
    parser.add_argument("--runs", type=int, help="integrate this many seeds together, at least 250")
    options = parser.parse_args()
    target = options.target
    if options.runs is not None:
        many(max(options.runs, 250), target)
        return
    compiled = iclflow_compiled()  # before the reference, which would have loaded it
    reference = maps(gradient_flow(LOSS, START, t_end=T_END, rtol=1e-12).states_at(TIMES))
    peers: list[tuple[str, str | None, Callable[[], Solver]]] = [
        ("iclflow compiled", None, lambda: compiled),
        ("iclflow", None, lambda: iclflow),
        ("scipy LSODA", None, lambda: scipy_with("LSODA")),
        ("scipy DOP853", None, lambda: scipy_with("DOP853")),
        ("diffrax Kvaerno5", "diffrax", lambda: diffrax_with("Kvaerno5")),
        ("diffrax Dopri8", "diffrax", lambda: diffrax_with("Dopri8")),
        ("heyoka", "heyoka", heyoka_taylor),
        ("torchdiffeq dopri8", "torchdiffeq", lambda: torchdiffeq_with("dopri8")),
    ]
    print(f"error of the effective map at most {target:.0e}, at {len(TIMES)} times up to t = {T_END:g}")
    print(f"{'solver':<24} {'rtol':>8} {'error':>10} {'run':>12} {'compile':>12}")
    for name, package, make in peers:
        if package is not None and importlib.util.find_spec(package) is None:
            print(f"{name:<24} not installed")
            continue
        print(compare(name, make(), reference, target), flush=True)


if __name__ == "__main__":
    main()
