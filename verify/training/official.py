"""Runs of the paper's official code: made from its arguments alone, or trained again from recorded data by the modules here.

Its data and initial weights follow from its arguments by the order of draws from two generators, NumPy's legacy one and PyTorch's,
both seeded with ``seed`` (public repository yedizhang/linattn-icl, commit 9a481d5). Linear attention and the mlp are then replayed
from moments; softmax attention is trained, each step a full-batch step in float32.
"""

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

# The task vectors are whitened by MKL, whose last bits depend on the processor unless it is told before its first call that they must
# not: a plateau multiplies a difference of one bit to 1e-4 of the loss.
os.environ.setdefault("MKL_CBWR", "COMPATIBLE")

import torch
from torch import Tensor, nn

from ...numerics.replay.arguments import Arguments
from ...numerics.replay.recording import Recording, Run
from ...numerics.replay.replay import Replayed, play
from .descent import fixed_set, train
from .modules import Attention, MergedAttention, SeparateAttention
from .sequences import Batch

# The recordings are float32: 4,001 steps of rounding in another order of summation.
AGREEMENT = 1e-4


@dataclass(frozen=True)
class Retrained:
    """A comparison of a recorded loss curve with the one that training gives."""

    file: str
    steps: int
    seconds: float
    speedup: float | None
    max_relative_error: float

    @property
    def agrees(self) -> bool:
        return self.max_relative_error <= AGREEMENT

    def report(self) -> dict[str, object]:
        """Ready for JSON."""
        return asdict(self) | {"agrees": self.agrees, "method": "training"}

    def summary(self) -> str:
        faster = "" if self.speedup is None else f", {self.speedup:.1f} times faster than recorded"
        return (
            f"{self.file}: {self.steps} steps of PyTorch in {self.seconds:.1f} s{faster}; "
            f"largest relative difference of the loss {self.max_relative_error:.2e}"
        )


def retrain(path: Path | Recording, *, steps: int | None = None, progress: bool | None = None) -> Retrained:
    """Train again for the recorded number of steps, or the first ``steps``, and compare the losses."""
    file = path if isinstance(path, Recording) else Recording(path)
    loss = file.arrays["loss"][:steps]
    if len(loss) < 2:
        raise file.fault("loss", f"must hold at least two steps, got {len(loss)}")
    losses, seconds = _trained(file, len(loss), progress)
    speedup = None if file.seconds is None else file.seconds * len(loss) / file.steps / seconds
    error = max(float(np.abs(losses[name] / file.arrays[name][: len(loss)] - 1).max()) for name in losses)
    return Retrained(file.name, len(loss), seconds, speedup, error)


def official_run(arguments: Arguments, *, progress: bool | None = None) -> tuple[dict[str, np.ndarray], Replayed]:
    """The arrays of a run of the official code, with the keys of a recording, and how its losses were reached.

    Raises ``FloatingPointError`` if the run overflows.
    """
    arrays: dict[str, np.ndarray] = {"args": np.array(arguments.to_text()), **_data_and_weights(arguments)}
    run = Run(arrays, "the run")
    if arguments.replayable:
        played = play(run)
    else:
        losses, seconds = _trained(run, run.steps, progress)
        played = Replayed(losses, float("nan"), None, seconds)
    return arrays | played.losses, played


# The draws, in the official code's order


def _data_and_weights(given: Arguments) -> dict[str, np.ndarray]:
    numpy, torch_generator = np.random.RandomState(given.seed), torch.Generator().manual_seed(given.seed)
    D = given.in_dim
    fixed = _normal((D, given.out_dim), torch_generator)
    fixed = fixed * D**0.5 / torch.norm(fixed)
    covariance = np.eye(D)
    if not given.white_cov:
        basis, _ = np.linalg.qr(numpy.randn(D, D))
        covariance = basis @ np.diag(np.arange(D) + 1) @ basis.T
    covariance = covariance / np.trace(covariance)
    sets = {"": (given.trainset_size, given.icl)}
    if given.testset_size:
        sets |= {"_iwl": (given.testset_size, 0), "_icl": (given.testset_size, 1)}
    arrays = {}
    for name, (count, share) in sets.items():
        seen, target = _set(given, count, share, covariance, fixed, numpy, torch_generator)
        arrays |= {f"data.x{name}": seen.numpy(), f"data.y{name}": target.numpy()}
    return arrays | {f"init.{layer}.weight": weight.numpy() for layer, weight in _layers(given, torch_generator).items()}


def _normal(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.normal(0, 1, size=shape, generator=generator, dtype=torch.float32)


def _set(
    given: Arguments, count: int, share: float, covariance: np.ndarray, fixed: Tensor, numpy: Any, generator: torch.Generator
) -> Batch:
    """Sequences of which a ``share`` have a random task vector: what the network sees, and the targets."""
    D, L = given.in_dim, given.seq_len
    tokens = numpy.multivariate_normal(np.zeros(D), covariance, size=count * L)
    x = torch.tensor(tokens.reshape(count, L, D)).float()
    x = x - x.mean(dim=0, keepdim=True)
    w = _normal((count, D, given.out_dim), generator)
    if share == 0:
        y = _normal((count, L, given.out_dim), generator)
        y[:, -1, :] = x[:, -1, :] @ fixed
    else:
        if share == 1:
            w = _whitened(w)
        else:
            w[int(count * share) :] = fixed
        y = torch.einsum("nli,nio->nlo", x, w)
    target = torch.cat((x, y), dim=2)
    seen = target.clone()
    seen[:, -1, D:] = 0
    if given.cubic_feat:
        correlation = torch.bmm(seen.transpose(1, 2), seen)[:, :D, [-1]]
        seen = torch.flatten(torch.bmm(correlation, seen[:, [-1], :D]), start_dim=1)
    return seen, target


def _whitened(w: Tensor) -> Tensor:
    """Task vectors (P, D, out) with mean zero and covariance I over the set, by the symmetric root of the inverse."""
    w = w - w.mean(dim=0, keepdim=True)
    for output in range(w.shape[-1]):
        values, vectors = torch.linalg.eigh(torch.cov(w[:, :, output].T))
        w[:, :, output] = w[:, :, output] @ (vectors @ torch.diag(torch.tensor(1.0 / np.sqrt(values.numpy()))) @ vectors.T).T
    return w


def _layers(given: Arguments, generator: torch.Generator) -> dict[str, Tensor]:
    """The initial weights (out, in). Each layer is drawn by PyTorch's default when it is made, then again in the same order."""
    n, H = given.in_dim + given.out_dim, given.head_num
    shapes = {
        "attnM": {"kq": (H * n, n), "value": (H * n, n)},
        "attnS": {"key": (H * given.rank, n), "query": (H * given.rank, n), "value": (H * n, n)},
        "mlp": {"fc1": (H, given.in_dim**2), "fc2": (given.out_dim, H)},
    }[given.model]
    layers = {name: torch.empty(shape, dtype=torch.float32) for name, shape in shapes.items()}
    for weight in layers.values():
        weight.uniform_(generator=generator)  # moves the generator as the default does
    for weight in layers.values():
        weight.normal_(0, given.init / weight.numel() ** 0.5 if given.model == "attnS" else given.init, generator=generator)
    if given.model == "attnM":
        layers["kq"].view(H, n, n)[:, : given.in_dim, -1] = 0
    if given.model == "attnS":
        layers["key"][:, -1] = 0
    if given.model != "mlp":
        layers["value"].view(H, n, n)[:, -1, : given.in_dim] = 0
    return layers


# Training by PyTorch


class _EachPrefix(nn.Module):
    """The predictions from the first two tokens, from three, up to all, each output divided by the number of tokens."""

    def __init__(self, network: Attention):
        super().__init__()
        self.network = network

    def forward(self, X: Tensor) -> Tensor:
        outputs = []
        for n in range(2, X.shape[-1] + 1):
            shown = X[:, :, :n].clone()
            shown[:, -1, -1] = 0
            outputs.append(self.network(shown) / n)
        return torch.cat(outputs)


def _network(run: Run) -> Attention:
    """The module with the initial weights; as in the official code, scores are summed, not averaged."""
    layers = {name: torch.tensor(weight, dtype=torch.float32) for name, weight in run.layers.items()}
    softmax = run.arguments.softmax
    if run.arguments.model == "attnM":
        return MergedAttention(layers["value"], layers["kq"].mT, softmax=softmax, rho=1.0)
    if run.arguments.model == "attnS":
        return SeparateAttention(layers["value"], layers["key"], layers["query"], softmax=softmax, rho=1.0)
    raise run.fault("args", "the mlp is replayed from moments, not trained")


def _trained(run: Run, steps: int, progress: bool | None) -> tuple[dict[str, np.ndarray], float]:
    """The loss before each of ``steps`` steps of PyTorch, on the training set and the test sets, and the seconds of training."""
    network, varied = _network(run), run.arguments.vary_len

    def batch(test: str, last: Callable[[Tensor], Tensor]) -> Batch:
        x, y = (torch.tensor(array, dtype=torch.float32) for array in run.sets[test])
        return x.mT.contiguous(), last(y[:, :, -1])

    training = batch("", (lambda y: y[:, 1:].T.flatten()) if varied else (lambda y: y[:, -1]))
    start = time.perf_counter()
    trained = _EachPrefix(network) if varied else network
    record = train(trained, fixed_set(training), steps=max(steps - 1, 1), learning_rate=run.learning_rate, progress=progress)
    losses = {"loss": record.batch_loss[:steps]}
    with torch.no_grad():
        for test in run.tests:
            X, y = batch(f"_{test}", lambda y: y[:, -1])
            scale, losses[f"loss_{test}"] = (X.shape[-1] if varied else 1), np.empty(steps)
            for step in range(steps):
                weights = {name.removeprefix("network."): torch.tensor(states[step]) for name, states in record.states.items()}
                predicted = torch.func.functional_call(network, weights, (X,)) / scale
                losses[f"loss_{test}"][step] = (predicted - y).square().mean()
    return losses, time.perf_counter() - start
