"""How often ``diagnose`` names the cause that was planted in a random training, and a wrong one.

    python benchmarks/diagnosis.py [--runs 200] [--seed 0]

Half of the trainings follow theory: SGD on fresh sequences with a random task, step, batch and duration. The others have one planted
cause. It is found if it is named, perhaps with others that fit as well; a cause that is named without it is wrong. A planted cause is
hidden if theory's curve with it lies within the noise (``sgd_noise``) of theory's curve without it: such a training agrees with theory.
"""

import argparse
import sys
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import torch
from iclflow.numerics.dynamics.flow import gradient_flow
from iclflow.numerics.parametrizations.attention import SeparateWeights
from iclflow.numerics.tasks.losses import QuadraticLoss
from iclflow.verify.experiments.diagnosis import AGREES, diagnose, sample_loss
from iclflow.verify.experiments.setting import Setting
from iclflow.verify.experiments.staircase import sgd_noise
from iclflow.verify.training.descent import fixed_set, fresh_batches, train
from iclflow.verify.training.modules import ReducedSeparate
from iclflow.verify.training.sequences import draw_sequences

PLANTED = (
    "factor 1/2 in what is recorded",
    "sum over the context",
    "time scale",
    "finite P",
    "initial scale",
    "initial law of the value weights",
)


class Summed(ReducedSeparate):
    """Attention that sums over the context instead of averaging."""

    def _weigh(self, scores, context_length, dim):
        return scores


def setting(rng: np.random.Generator) -> Setting:
    D = int(rng.integers(1, 4))
    chosen = Setting(
        eigenvalues=tuple(float(x) for x in np.sort(rng.uniform(0.3, 1, D))[::-1]),
        context_length=int(rng.integers(4, 20)),
        heads=D + int(rng.integers(0, 3)),
        scale=float(rng.uniform(0.2, 0.5)),
        seed=int(rng.integers(2**31)),
        learning_rate=float(10 ** rng.uniform(-1.5, -0.7)),
        batch_size=int(2 ** rng.integers(7, 12)),
    )
    # At least until the first head has escaped
    return replace(chosen, duration=float(rng.uniform(4, 10)) / (chosen.eigenvalues[0] ** 2 * chosen.scale))


@dataclass(frozen=True)
class Planted:
    """A training: the setting that its author believes in, the recorded times and losses, and the curves of theory there."""

    believed: Setting
    times: np.ndarray
    losses: np.ndarray
    with_cause: np.ndarray
    without: np.ndarray

    @property
    def effect(self) -> float:
        """The root mean square distance of theory's curves, in units of the initial loss."""
        return float(np.sqrt(np.mean((self.with_cause - self.without) ** 2))) / QuadraticLoss.population(self.believed.task).c


def plant(chosen: Setting, cause: str) -> Planted:
    """Train with a cause, and integrate its flow and that of the setting."""
    w, N, believed, loss = chosen.weights, chosen.context_length, chosen, QuadraticLoss.population(chosen.task)
    network, source = ReducedSeparate(w), fresh_batches(chosen.task, chosen.batch_size, torch.Generator().manual_seed(chosen.seed))
    start, objective, gain, pace, recorded = w, loss, 1.0, 1.0, 1.0
    if cause == "initial scale":
        start = w.unflatten(2.5 * w.flatten())
        network = ReducedSeparate(start)
    if cause == "initial law of the value weights":
        start = SeparateWeights(w.v / 11, w.k, w.q)
        network = ReducedSeparate(start)
    if cause == "sum over the context":
        network, believed, gain = Summed(w), replace(chosen, learning_rate=chosen.learning_rate / N), N
        start = w.unflatten(N ** (1 / 3) * w.flatten())  # whose flow is N^(1/3) times that of the sum, N^(2/3) times as fast
    if cause == "finite P":
        believed = replace(chosen, batch_size=chosen.batch_size // 4)
        source = fixed_set(draw_sequences(chosen.task, believed.batch_size, torch.Generator().manual_seed(chosen.seed)))
        objective = sample_loss(believed, believed.batch_size, chosen.seed)
    if cause == "time scale":
        pace = 0.5  # t/tau counted as steps times step size
    if cause == "factor 1/2 in what is recorded":
        recorded = 0.5
    steps, eta = believed.steps, believed.learning_rate
    run = train(network, source, steps=steps, learning_rate=eta, record_every=max(1, steps // 200), progress=False)
    t, end = run.times, float(run.times[-1])
    return Planted(
        believed=believed,
        times=pace * t,
        losses=run.batch_loss if cause == "finite P" else recorded * np.array([loss.value(B) for B in gain * run.effective_maps()]),
        with_cause=recorded * gradient_flow(objective, start, t_end=gain ** (2 / 3) * end).loss_at(gain ** (2 / 3) * t),
        without=gradient_flow(loss, w, t_end=end).loss_at(pace * t),
    )


def verdict(cause: str, named: tuple[str, ...], hidden: bool) -> str:
    """What a diagnosis is worth: found, hidden (nothing was there to find), missed or wrong."""
    if cause in named:
        return "found"
    if set(named) - {AGREES}:
        return "wrong"
    return "hidden" if hidden else "missed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the number of the first run, to measure in parts")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    verdicts: dict[str, Counter[str]] = {cause: Counter() for cause in (AGREES, *PLANTED)}
    for number in range(options.first, options.runs):
        cause = AGREES if number % 2 else PLANTED[number // 2 % len(PLANTED)]
        run = plant(setting(np.random.default_rng([options.seed, number])), cause)
        noise = sgd_noise(run.believed)
        diagnosis = diagnose(run.times, run.losses, run.believed, noise=noise)
        found = verdict(cause, diagnosis.causes, cause != AGREES and run.effect <= noise)
        verdicts[cause][found] += 1
        print(f"{number:4} {cause:34} {run.effect:6.3f} {noise:6.3f}  {found}: {' or '.join(diagnosis.causes) or 'none'}", flush=True)
        if found not in ("found", "hidden"):
            print(f"{run.believed}\n  " + "\n  ".join(str(diagnosis).splitlines()[1:4]), flush=True)
    print(f"{'planted':34} {'runs':>5} {'hidden':>7} {'found':>6} {'missed':>7} {'wrong':>6}")
    for cause, counts in verdicts.items():
        print(f"{cause:34} {counts.total():5} {counts['hidden']:7} {counts['found']:6} {counts['missed']:7} {counts['wrong']:6}")
    planted = sum((verdicts[cause] for cause in PLANTED), Counter())
    share = planted["found"] / max(1, planted.total() - planted["hidden"])
    wrong = planted["wrong"] + verdicts[AGREES]["wrong"]
    print(f"{share:.0%} of the visible causes found, {wrong} wrong causes named")
    return 0 if share >= 0.9 and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
