r"""Gradient descent on real sequences: fresh mini-batches at every step, or one fixed training set.

.. math::
    W \leftarrow W - \eta \frac{\partial}{\partial W} \frac1P \sum_\mu (y_{\mu,q} - \hat y_{\mu,q})^2

No half. Gradient flow (10) is ``tau dW/dt = -1/2 dL/dW``, so a step advances time by ``2 eta tau``, with momentum mu by
``2 eta tau/(1 - mu)``; every time here is ``t/tau``. Steps of sign descent and of Adam count as ``eta``.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim.adam import adam
from tqdm import tqdm

from ...numerics import QuadraticLoss, RegressionTask
from ...numerics._checks import instance, nonnegative_number, one_of, positive_integer, positive_number
from ...numerics.dynamics.momentum import check_momentum
from ...numerics.dynamics.results import Result, Variable, time_variable
from . import OPTIMIZERS
from .sequences import Batch, draw_sequences


@dataclass(frozen=True, repr=False)
class TrainingRun(Result):
    """The record of a network's training: before the first step, then every ``record_every`` steps.

    ``times`` are in units of t/tau, ``batch_loss`` is the loss on the mini-batch used at that step, ``states`` holds
    every parameter of the network by name, stacked over times (and over networks, if several trained together).
    """

    times: Float[np.ndarray, " T"]
    batch_loss: Float[np.ndarray, "T *networks"]
    states: dict[str, Float[np.ndarray, "T ..."]]
    learning_rate: float
    batch_size: int
    seconds: float
    shown = ("times", "batch_loss", "states", "learning_rate", "batch_size", "seconds")

    def variables(self) -> dict[str, Variable]:
        networks = ("network",) * (self.batch_loss.ndim - 1)
        states = {
            name: Variable(
                ("time", *networks, *(f"{name}_{i}" for i in range(1, a[0].ndim - len(networks) + 1))), a, f"weights {name}", "weights"
            )
            for name, a in self.states.items()
        }
        loss = Variable(("time", *networks), self.batch_loss, "loss on the mini-batch", "loss")
        return {"time": time_variable(self.times), "batch_loss": loss, **states}

    def attributes(self) -> dict[str, object]:
        return {"learning_rate": self.learning_rate, "batch_size": self.batch_size, "seconds": self.seconds}

    def effective_maps(self) -> Float[np.ndarray, "T *networks D D"]:
        """B at every recorded time, for the reduced attentions (M) and (S)."""
        s = self.states
        if s.keys() == {"v", "U"}:
            return np.einsum("...h,...hij->...ij", s["v"], s["U"])
        if s.keys() == {"v", "k", "q"}:
            return np.einsum("...h,...hri,...hrj->...ij", s["v"], s["k"], s["q"])
        raise ValueError(f"only attention (M) or (S) has an effective map D by D, got a network with {sorted(s)}")

    def population_loss(self, loss: QuadraticLoss) -> Float[np.ndarray, "T *networks"]:
        """The exact loss over all sequences at every recorded time, without the noise of the mini-batches."""
        return loss.values(self.effective_maps())


def fresh_batches(task: RegressionTask, batch_size: int, generator: torch.Generator, **options) -> Callable[[], Batch]:
    """A source of mini-batches that are never seen twice; ``options`` go to :func:`draw_sequences`."""
    batch_size = positive_integer("batch_size", batch_size)
    return lambda: draw_sequences(task, batch_size, generator, **options)


def one_each(sources: Sequence[Callable[[], Batch]]) -> Callable[[], Batch]:
    """Stack the mini-batches of one source per network. Raises ``ValueError`` for an empty list."""
    if not sources:
        raise ValueError("sources must hold one source for each network, got an empty list")

    def stacked() -> Batch:
        prompts, targets = zip(*(source() for source in sources), strict=True)
        return torch.stack(prompts), torch.stack(targets)

    return stacked


def fixed_set(batch: Batch) -> Callable[[], Batch]:
    """A source that returns the same training set at every step: full-batch gradient descent."""
    return lambda: batch


def mean_squared_error(network: nn.Module, parameters: dict[str, Tensor], batch: Batch) -> Tensor:
    """The loss (9) on a batch, with the network's parameters given from outside."""
    X, y = batch
    return (torch.func.functional_call(network, parameters, (X,)) - y).square().mean()


def holding(network: nn.Module, parameters: dict[str, Tensor]) -> nn.Module:
    """A copy of a network with these parameters, which may be stacked over networks."""
    copied = deepcopy(network)
    for name, values in parameters.items():
        copied.get_parameter(name).data = values
    return copied


def _losses(network: nn.Module, several: bool) -> Callable[[Batch], Tensor]:
    """The loss of a network on a batch, or those of several, whose parameters it holds stacked; batches may be stacked too.

    Linear attentions share the features of a batch and differ only in their coefficients. ``vmap`` would compute the scores of every
    token for each network, and moving that much memory takes all the time it saves.
    """
    if not several:
        return lambda batch: (network(batch[0]) - batch[1]).square().mean()
    if not getattr(network, "linear", False):
        shared, own = (torch.func.vmap(partial(mean_squared_error, network), in_dims=(0, axis)) for axis in (None, 0))
        return lambda batch: (shared if batch[1].ndim == 1 else own)(dict(network.named_parameters()), batch)

    @lru_cache(maxsize=1)  # a fixed set has them once
    def features_of(X: Tensor) -> Tensor:
        return network.features(X.flatten(end_dim=-3)).unflatten(0, X.shape[:-2])  # pyright: ignore[reportCallIssue]

    def losses(batch: Batch) -> Tensor:
        features, y = features_of(batch[0]), batch[1]
        theta = network.coefficients()  # pyright: ignore[reportCallIssue]
        predicted = theta @ features.mT if y.ndim == 1 else torch.einsum("spf,sf->sp", features, theta)
        return (predicted - y).square().mean(dim=-1)

    return losses


def adam_of(weights: list[Tensor], learning_rate: float, epsilon: float = 1e-8) -> Callable[[list[Tensor]], None]:
    """What moves ``weights`` by a step of PyTorch's Adam, given their gradients; the class would load PyTorch's compiler, for a second."""
    (means, squares), counts = ([torch.zeros_like(one) for one in weights] for _ in range(2)), [torch.zeros(()) for _ in weights]
    rule = partial(adam, amsgrad=False, beta1=0.9, beta2=0.999, lr=learning_rate, weight_decay=0.0, eps=epsilon, maximize=False)
    return torch.no_grad()(lambda gradients: rule(weights, gradients, means, squares, [], counts))


@contextmanager
def one_thread() -> Iterator[None]:
    """Run PyTorch on one thread: on tensors this small, more threads only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def train(
    networks: nn.Module | Sequence[nn.Module],
    batches: Callable[[], Batch],
    *,
    steps: int,
    learning_rate: float,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    optimizer: str = "sgd",
    record_every: int = 1,
    progress: bool | None = None,
) -> TrainingRun:
    """Train one network, or several of one shape at once, by gradient descent or heavy ball (``optimizer="sgd"``), Adam ("adam", with
    PyTorch's settings) or steps along the signs of the gradient ("sign").

    Several networks share their mini-batches; if prompts and targets have a leading axis of networks, each network has its own.

    The networks themselves do not change; the trained parameters are ``run.states`` at the last time.
    ``weight_decay`` gamma adds gamma |W|^2 to the loss that the steps lower, not to the one recorded.
    ``progress`` None shows a bar on a terminal only.

    Raises ``ValueError`` for a step count, step size or recording interval that is not positive, a momentum outside [0, 1), an unknown
    optimizer, momentum without SGD or batches that are not one for each network, and ``FloatingPointError`` as soon as a recorded loss is
    not finite.
    """
    steps, record_every = positive_integer("steps", steps), positive_integer("record_every", record_every)
    learning_rate, weight_decay = positive_number("learning_rate", learning_rate), nonnegative_number("weight_decay", weight_decay)
    momentum, optimizer = check_momentum(momentum), one_of("optimizer", optimizer, OPTIMIZERS)
    if momentum and optimizer != "sgd":
        raise ValueError(f"momentum must be 0 with the optimizer {optimizer}, got {momentum!r}")
    advance = 2 * learning_rate / (1 - momentum) if optimizer == "sgd" else learning_rate
    several = [] if isinstance(networks, nn.Module) else list(instance("networks", networks, Sequence, "a network or a list of them"))
    network, *_ = given = [instance("networks", one, nn.Module, "at least one torch.nn.Module") for one in several or [networks]]

    initial = {name: torch.stack([one.get_parameter(name).detach() for one in given]) for name, _ in network.named_parameters()}
    network = holding(network, initial if several else {name: p[0] for name, p in initial.items()})
    losses_of, parameters = _losses(network, bool(several)), {name: p.requires_grad_() for name, p in network.named_parameters()}
    move = adam_of(list(parameters.values()), learning_rate) if optimizer == "adam" else None
    moved = [torch.zeros_like(p) for p in parameters.values()]
    times, losses, states, batch_size = [], [], {name: [] for name in parameters}, 0
    start = time.perf_counter()
    with one_thread():
        hidden = not (sys.stderr.isatty() if progress is None else progress)
        for step in tqdm(range(steps + 1), desc="training", unit="step", disable=hidden, leave=False, mininterval=0.2):
            batch = batches()
            batch_size = batch[1].shape[-1]
            if batch[1].ndim == 2 and len(batch[1]) != len(several):
                raise ValueError(f"batches must be one for each of {len(several)} networks, got {len(batch[1])}")
            value = losses_of(batch)
            gradients = torch.autograd.grad(value.sum(), list(parameters.values()), materialize_grads=True)
            if step % record_every == 0 or step == steps:
                times.append(advance * step)
                losses.append(value.detach().cpu().numpy())
                if not np.isfinite(losses[-1]).all():
                    raise FloatingPointError(
                        f"the loss is {value.max().item()!r} at step {step}: learning_rate {learning_rate!r} is too large"
                    )
                for name, p in parameters.items():
                    states[name].append(p.detach().cpu().numpy().copy())
            with torch.no_grad():
                if weight_decay:
                    gradients = [slope + 2 * weight_decay * p for slope, p in zip(gradients, parameters.values(), strict=True)]
                if move is not None:
                    move(list(gradients))
                    continue
                for p, step_taken, slope in zip(parameters.values(), moved, gradients, strict=True):
                    p += step_taken.mul_(momentum).sub_(learning_rate * (slope.sign() if optimizer == "sign" else slope))
    return TrainingRun(
        times=np.array(times),
        batch_loss=np.array(losses),
        states={name: np.stack(values) for name, values in states.items()},
        learning_rate=learning_rate,
        batch_size=batch_size,
        seconds=time.perf_counter() - start,
    )
