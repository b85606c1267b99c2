"""How often ``diagnose`` names the cause that was planted in a random training, and a wrong one.

    python benchmarks/diagnosis.py [--runs 200] [--seed 0]

Half of the trainings follow theory: SGD on fresh sequences with a random task, step, batch and duration. The others have one planted
cause. It is found if it is named, perhaps with others that fit as well; a cause that is named without it is wrong.
"""

import argparse
from collections import Counter
from dataclasses import replace

import numpy as np
import torch
from iclflow.numerics.parametrizations.attention import SeparateWeights
from iclflow.numerics.tasks.losses import QuadraticLoss
from iclflow.verify.experiments.diagnosis import AGREES, diagnose
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


def trained(chosen: Setting, cause: str) -> tuple[np.ndarray, np.ndarray, Setting]:
    """Times, the exact loss and the setting that the run's author believes in."""
    w, generator, pace = chosen.weights, torch.Generator().manual_seed(chosen.seed), 1.0
    believed, loss = chosen, QuadraticLoss.population(chosen.task)
    if cause == "initial scale":
        w = w.unflatten(2.5 * w.flatten())
    if cause == "initial law of the value weights":
        w = SeparateWeights(w.v / 11, w.k, w.q)
    network, source = ReducedSeparate(w), fresh_batches(chosen.task, chosen.batch_size, generator)
    if cause == "sum over the context":
        network, chosen = Summed(w), replace(chosen, learning_rate=chosen.learning_rate / chosen.context_length)
        believed = chosen
    if cause == "finite P":
        believed = replace(chosen, batch_size=chosen.batch_size // 4)
        source = fixed_set(draw_sequences(chosen.task, believed.batch_size, generator))
    if cause == "time scale":
        pace = 0.5  # t/tau counted as steps times step size
    run = train(
        network, source, steps=chosen.steps, learning_rate=chosen.learning_rate, record_every=max(1, chosen.steps // 200), progress=False
    )
    maps = run.effective_maps() * (chosen.context_length if cause == "sum over the context" else 1)
    losses = np.array([loss.value(B) for B in maps])
    if cause == "finite P":
        losses = run.batch_loss
    return pace * run.times, losses / (2 if cause == "factor 1/2 in what is recorded" else 1), believed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    named: dict[str, Counter[str]] = {cause: Counter() for cause in (AGREES, *PLANTED)}
    for number in range(options.runs):
        rng = np.random.default_rng([options.seed, number])
        cause = AGREES if number % 2 else PLANTED[number // 2 % len(PLANTED)]
        times, losses, believed = trained(setting(rng), cause)
        found = diagnose(times, losses, believed, noise=sgd_noise(believed))
        name = cause if cause in found.causes else " or ".join(found.causes) or "none"
        named[cause][name] += 1
        if name != cause:
            print(f"{number}: planted {cause!r}, named {name!r}\n  {believed}\n  " + "\n  ".join(str(found).splitlines()[1:4]), flush=True)
    print(f"{'planted':34} {'runs':>5} {'found':>6} {'none':>5} {'wrong':>6}")
    for cause, counts in named.items():
        wrong = counts.total() - counts[cause] - counts["none"]
        if cause != AGREES:
            wrong -= counts[AGREES]
        print(f"{cause:34} {counts.total():5} {counts[cause]:6} {counts['none'] + (counts[AGREES] if cause != AGREES else 0):5} {wrong:6}")


if __name__ == "__main__":
    main()
