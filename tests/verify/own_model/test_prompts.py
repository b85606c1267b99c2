"""The PyTorch check of one's own model: right formulas pass, wrong ones do not, and the network is the model."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from iclflow.numerics import MergedWeights, RademacherTokens, RegressionTask, SphereTokens
from iclflow.numerics.own_model.loss import model_loss
from iclflow.theory import Fixed, Gaussian, Mixture, SampleCovariance
from iclflow.theory.model import Model
from iclflow.theory.notation import D, Lambda, Lambda_hat, N, beta, matrix, sigma, vector, w, x_q
from iclflow.theory.results.own_model.two_steps import U, two_steps
from iclflow.verify.own_model.prompts import ModelNetwork, check_model
from iclflow.verify.training.descent import fresh_batches, train
from iclflow.verify.training.modules import ReducedMerged
from iclflow.verify.training.sequences import draw_sequences
from sympy import Rational

TASK = RegressionTask(eigenvalues=[0.5, 0.3], context_length=4)
START = np.array([[1.0, 0.4], [-0.3, 0.8]])
zeta, b, w_0 = vector("zeta", D), vector("b", D), vector("w_0", D)
NOISE = (Fixed(beta, Lambda_hat * w + zeta), Gaussian(zeta, covariance=sigma**2 / N * Lambda_hat))
REPEATED = (Mixture(((Rational(1, 3), Gaussian(w)), (Rational(2, 3), Fixed(w, w_0)))),)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


@pytest.mark.parametrize(
    ("model", "weights", "constants"),
    [
        (two_steps(), {U: START}, {}),
        (Model(beta.T * U * x_q, (U,), laws=NOISE, constants=(sigma,)), {U: START}, {sigma: 0.5}),
        (
            Model(beta.T * U * x_q + b.T * x_q, (U, b), laws=REPEATED, constants=(w_0,)),
            {U: START, b: np.ones((2, 1))},
            {w_0: [[1.0], [-1.0]]},
        ),
    ],
    ids=["two steps", "label noise", "repeated task"],
)
def test_sampled_and_derived_agree(model, weights, constants):
    check = check_model(model, TASK, weights=weights, constants=constants, count=12_800, generator=generator())
    assert check.loss_score < 4.5
    assert check.velocity_score < 4.5
    assert check.autograd_residual < 1e-12
    assert check.loss_sampled == pytest.approx(check.loss_exact, rel=0.2)


VARIED = {
    "everything": RegressionTask(
        covariance=[[0.5, 0.2], [0.2, 0.4]],
        task_covariance=[[0.6, -0.4], [-0.4, 1.5]],
        query_covariance=[[0.5, -0.3], [-0.3, 0.9]],
        noise_variance=0.3,
        context_lengths={2: 0.5, 5: 0.5},
        context_gain="official",
    ),
    "sphere": RegressionTask(eigenvalues=[0.5, 0.3], context_lengths=[2, 4], token_law=SphereTokens(), noise_variance=0.1),
    "signs": RegressionTask(
        covariance=[[0.5, 0.2], [0.2, 0.4]], context_length=3, token_law=RademacherTokens(), query_covariance=np.eye(2)
    ),
}
LINEAR = Model(beta.T * U * x_q, (U,))


@pytest.mark.parametrize(("name", "model"), [("everything", two_steps()), ("sphere", LINEAR), ("signs", LINEAR)])
def test_varied_tasks_agree(name, model):
    check = check_model(model, VARIED[name], weights={U: START}, count=12_800, generator=generator())
    assert check.loss_score < 4.5
    assert check.velocity_score < 4.5
    assert check.autograd_residual < 1e-12


@pytest.mark.parametrize("name", VARIED)
def test_another_task_than_was_sampled_is_caught(name, monkeypatch):
    """The loss and flow of the paper's task with these tokens, on sequences of the varied one."""
    task = VARIED[name]
    plain, _ = model_loss(LINEAR, RegressionTask(covariance=task.covariance, context_length=task.context_length), weights={U: START})
    loss, _ = model_loss(LINEAR, task, weights={U: START})
    monkeypatch.setattr(type(loss), "value", lambda self, vector: plain._value(START, *plain.fixed.values()))
    check = check_model(LINEAR, task, weights={U: START}, count=64_000, generator=generator())
    assert check.loss_score > 6
    assert check.velocity_score < 4.5


@pytest.mark.parametrize("name", VARIED)
def test_network_reads_prompts_of_any_task(name):
    """The tokens' law need not be known: the sampled error of the network is the loss derived where there is one."""
    task = VARIED[name]
    network = ModelNetwork(LINEAR, task, {U: START})
    X, y = draw_sequences(task, 40_000, generator())
    squares = (network(X) - y).detach().square()
    loss, point = model_loss(LINEAR, task, weights={U: START})
    assert abs(squares.mean() - loss.value(point)) < 4.5 * squares.std() / len(squares) ** 0.5
    ModelNetwork(two_steps(), VARIED["sphere"], {U: START})


def test_network_counts_the_tokens_that_there_are():
    """A prediction that holds N, on prompts filled up with zeros."""
    own = ModelNetwork(Model(beta.T * U * x_q / (N + 1), (U,)), VARIED["everything"], {U: START})
    plain = ModelNetwork(LINEAR, VARIED["everything"], {U: START})
    X, _ = draw_sequences(VARIED["everything"], 50, generator())
    lengths = (X[:, 0, :-1] != 0).sum(-1)
    assert set(lengths.tolist()) == {2, 5}
    torch.testing.assert_close(own(X), plain(X) / (lengths + 1), rtol=1e-12, atol=1e-12)


def test_a_wrong_loss_is_caught(monkeypatch):
    """The loss and flow of another context length."""
    model = Model(beta.T * (2 * U - U * Lambda_hat * U) * x_q, (U,))
    longer = Model(model.prediction, (U,), laws=(SampleCovariance(Lambda_hat, Lambda, N + 4),))
    monkeypatch.setitem(model.__dict__, "_loss", longer.loss())
    check = check_model(model, TASK, weights={U: START}, count=12_800, generator=generator())
    assert check.loss_score > 6
    assert check.velocity_score > 6


def test_network_reads_the_prompt():
    """The model beta' U x_q is attention (M) with v = 1."""
    X, _ = draw_sequences(TASK, 16, generator())
    own = ModelNetwork(Model(beta.T * U * x_q, (U,)), TASK, {U: START})
    attention = ReducedMerged(MergedWeights(np.ones(1), START[None]))
    torch.testing.assert_close(own(X), attention(X), rtol=1e-12, atol=1e-12)
    assert set(dict(own.named_parameters())) == {"U"}


def test_network_refuses_what_a_prompt_hides():
    with pytest.raises(ValueError, match="got w in its prediction"):
        ModelNetwork(Model(w.T * U * x_q, (U,)), TASK, {U: START})
    with pytest.raises(ValueError, match="count must be an integer of at least 128, got 10"):
        check_model(two_steps(), TASK, weights={U: START}, count=10, generator=generator())
    A = matrix("A", D)
    odd = SampleCovariance(Lambda_hat, A * A.T, N, fourth_moment=lambda inner: inner)
    model = Model(beta.T * U * x_q, (U,), laws=(odd,), constants=(A,))
    with pytest.raises(ValueError, match="another fourth moment"):
        check_model(model, TASK, weights={U: START}, constants={A: np.eye(2)}, count=200, generator=generator())


def test_the_documented_example_runs(capsys):
    """The first code of docs/own_model.md, as it stands there; its last line prints how many standard errors it is off."""
    page = (Path(__file__).parents[3] / "docs" / "own_model.md").read_text(encoding="utf-8")
    code, *_ = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    exec(compile(code, "own_model.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    loss_score, velocity_score, residual = map(float, printed[-1].split())
    assert loss_score < 4.5
    assert velocity_score < 4.5
    assert residual < 1e-10
    assert printed[0].startswith("tr(Lambda) - 4 tr(Lambda^2 U)")


def test_a_model_of_your_own_is_trained_as_any_network():
    """From the loss that is derived; the network that was given stays as it was."""
    model = two_steps()
    network = ModelNetwork(model, TASK, {U: START})
    exact, point = model_loss(model, TASK, weights={U: START})
    run = train(network, fresh_batches(TASK, 4096, generator()), steps=2, learning_rate=1e-3, progress=False)
    np.testing.assert_array_equal(network.get_parameter("U").detach().numpy(), START)
    assert run.batch_loss[0] == pytest.approx(exact.value(point), rel=0.1)
    assert not np.array_equal(run.states["U"][-1], START)
