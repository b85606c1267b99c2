"""The figure of one's own model (V10): one, two and three steps of gradient descent in context, flow over training."""

import numpy as np
import torch

from ...numerics.own_model.flow import integrate
from ...numerics.tasks.regression import RegressionTask
from ...theory.model import Model
from ...theory.results.own_model.two_steps import U, descend
from ..own_model.prompts import ModelNetwork
from ..training.descent import fresh_batches, mean_squared_error, one_thread, train
from ..training.sequences import draw_sequences
from .gallery import Drawing, canvas, figure, listed
from .style import LOSS, SERIES, TIME, Theme

TASK = RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_length=31)
START, END, RATE, BATCH = np.zeros((4, 4)), 200.0, 0.05, 256


@figure("own-model")
def own_model(theory: Theme) -> Drawing:
    """The loss of each model in the gradient flow of its expression, and of the same expression trained by SGD."""
    picture, axes = canvas(theory, 6.4, 3.6)
    lines = []
    for steps, color in zip((1, 2, 3), SERIES, strict=False):
        model = Model(prediction=descend(steps), weights=(U,))
        flow = integrate(model, TASK, initial={U: START}, t_end=END, rtol=1e-6)
        times = np.linspace(0, END, 400)
        name = f"{steps} step{'s' if steps > 1 else ''}"
        axes.plot(
            times, flow.loss_at(times), color=theory.theory, lw=1.2, label="gradient flow" if steps == 1 else None
        )
        trained_times, trained = _trained(model)
        axes.plot(trained_times, trained, "o", color=color, ms=4, label=f"{name}, trained")
        gap = np.abs(trained / flow.loss_at(trained_times) - 1).max()
        lines.append(f"{name}: final loss {flow.loss[-1]:.4f}; trained within {gap:.2%} of the flow at every point.")
    axes.set(xlabel=TIME, ylabel=LOSS, ylim=(0, None), xlim=(0, END))
    axes.legend()
    caption = (
        f"Gradient descent in context with a learned preconditioner U (D = 4, N = 31, eigenvalues {listed(TASK.eigenvalues, 'g')}), "
        f"from U = 0. Loss and flow are derived from the one expression of the prediction; dots: the expression as a PyTorch network, "
        f"trained by SGD (step {RATE:g}, batch {BATCH}) and tested on 20,000 prompts. One step is linear attention."
    )
    return Drawing(picture, "\n".join([caption, *lines]))


def _trained(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Test losses along one run of SGD, at points evenly spread over the figure."""
    network = ModelNetwork(model, TASK, {U: START})
    steps = round(END / (2 * RATE))
    with one_thread():
        batches = fresh_batches(TASK, BATCH, torch.Generator().manual_seed(12))
        run = train(network, batches, steps=steps, learning_rate=RATE, record_every=steps // 20, progress=False)
        prompts = draw_sequences(TASK, 20_000, torch.Generator().manual_seed(13))
        with torch.no_grad():
            losses = [
                mean_squared_error(network, {"U": torch.tensor(state)}, prompts).item() for state in run.states["U"]
            ]
    return run.times, np.array(losses)
