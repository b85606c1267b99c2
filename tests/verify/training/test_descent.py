"""Plain gradient descent: against its definition, against the numerical layer, and many networks at once."""

import numpy as np
import pytest
import torch
from iclflow.numerics.dynamics.descent import gradient_descent
from iclflow.numerics.parametrizations.attention import MergedWeights, SeparateWeights
from iclflow.numerics.tasks.regression import RegressionTask
from iclflow.numerics.tasks.sample_moments import SampleMoments
from iclflow.verify.training.descent import fixed_set, fresh_batches, one_each, train
from iclflow.verify.training.modules import MergedAttention, ReducedMerged, ReducedSeparate
from iclflow.verify.training.sequences import draw_sequences

TASK = RegressionTask(eigenvalues=[0.5, 0.3, 0.2], context_length=8)


def start(seed=0, scale=1.0):
    return SeparateWeights.initialize(TASK, heads=3, rank=1, scale=scale, rng=np.random.default_rng(seed))


def batch(seed=0, count=100):
    return draw_sequences(TASK, count, torch.Generator().manual_seed(seed))


def test_one_step_is_minus_step_size_times_gradient():
    network, (X, y) = ReducedSeparate(start()), batch()
    run = train(network, fixed_set((X, y)), steps=1, learning_rate=0.1)
    loss = (network(X) - y).square().mean()
    loss.backward()
    for name, p in network.named_parameters():
        assert p.grad is not None
        assert np.allclose(run.states[name][1], (p - 0.1 * p.grad).detach(), rtol=1e-13)
    assert np.isclose(run.batch_loss[0], loss.item(), rtol=1e-14)
    assert run.times.tolist() == [0, 0.2]


def test_full_batch_training_is_descent_on_the_sample_moments():
    """Attention that reads X, and descent that knows only the moments of the set, take the same 200 steps."""
    X, y = batch(count=300)
    run = train(ReducedSeparate(start()), fixed_set((X, y)), steps=200, learning_rate=0.1)
    loss = SampleMoments.from_batches([(X.mT.numpy(), y.numpy())], context="mean").reduced().loss()
    descent = gradient_descent(loss, start(), steps=200, learning_rate=0.1)
    assert np.allclose(run.times, descent.times, rtol=1e-12)
    assert np.allclose(run.batch_loss, descent.loss, rtol=1e-10)
    assert np.allclose(run.population_loss(loss), run.batch_loss, rtol=1e-10)


def softmax_start(seed):
    return ReducedSeparate(start(seed), softmax=True, rho=2.0)


def full_start(seed):
    blocks = np.random.default_rng(seed).normal(scale=0.3, size=(2, 2, 4, 4))
    return MergedAttention(*blocks)


@pytest.mark.parametrize("network", [softmax_start, full_start])
def test_softmax_and_all_blocks_train_together_too(network):
    def source():
        return fresh_batches(TASK, 32, torch.Generator().manual_seed(1))

    networks = [network(seed) for seed in range(3)]
    together = train(networks, source(), steps=20, learning_rate=0.05)
    for i, one in enumerate(networks):
        alone = train(one, source(), steps=20, learning_rate=0.05)
        assert np.allclose(together.batch_loss[:, i], alone.batch_loss, rtol=1e-9)


@pytest.mark.parametrize("softmax", [False, True])
def test_networks_with_batches_of_their_own_are_those_trained_alone(softmax):
    blocks = np.random.default_rng(3).normal(scale=0.2, size=(2, 3, 2, 4, 4))
    networks = [MergedAttention(value, key_query, softmax=softmax) for value, key_query in blocks.swapaxes(0, 1)]

    def sources():
        return [fresh_batches(TASK, 32, torch.Generator().manual_seed(seed)) for seed in range(3)]

    together = train(networks, one_each(sources()), steps=20, learning_rate=0.05)
    assert together.batch_size == 32
    for i, (network, source) in enumerate(zip(networks, sources(), strict=True)):
        alone = train(network, source, steps=20, learning_rate=0.05)
        assert np.allclose(together.batch_loss[:, i], alone.batch_loss, rtol=1e-9)
        assert np.allclose(together.states["value"][:, i], alone.states["value"], rtol=1e-9, atol=1e-12)


def test_as_many_batches_as_networks():
    source = fresh_batches(TASK, 4, torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match="one for each of 1 networks, got 2"):
        train([full_start(0)], one_each([source, source]), steps=1, learning_rate=0.1)
    with pytest.raises(ValueError, match="sources must hold"):
        one_each([])


def test_networks_trained_together_are_those_trained_alone():
    """8 starts on shared mini-batches: the same curves to 1e-9."""
    networks = [ReducedSeparate(start(seed)) for seed in range(8)]

    def source():
        return fresh_batches(TASK, 64, torch.Generator().manual_seed(1))

    together = train(networks, source(), steps=100, learning_rate=0.1)
    assert together.batch_loss.shape == (101, 8)
    assert together.effective_maps().shape == (101, 8, 3, 3)
    for i, network in enumerate(networks):
        alone = train(network, source(), steps=100, learning_rate=0.1)
        assert np.allclose(together.batch_loss[:, i], alone.batch_loss, rtol=1e-9)
        assert np.allclose(together.states["k"][:, i], alone.states["k"], rtol=1e-9, atol=1e-12)


def test_fresh_batches_are_never_seen_twice():
    source = fresh_batches(TASK, 4, torch.Generator().manual_seed(2))
    assert not torch.equal(source()[0], source()[0])
    fixed = fixed_set(batch())
    assert fixed()[0] is fixed()[0]


def test_the_networks_are_left_as_they_were():
    network = ReducedSeparate(start())
    train(network, fixed_set(batch()), steps=3, learning_rate=0.1)
    assert np.array_equal(network.weights().flatten(), start().flatten())


def test_recording_starts_with_the_start_and_ends_with_the_end():
    run = train(ReducedSeparate(start()), fixed_set(batch()), steps=10, learning_rate=0.25, record_every=4)
    assert run.times.tolist() == [0, 2, 4, 5]
    assert run.batch_size == 100


def test_training_one_network_twice_gives_one_curve():
    runs = [
        train(
            ReducedMerged(MergedWeights.initialize(TASK, heads=2, scale=0.5, rng=np.random.default_rng(6))),
            fresh_batches(TASK, 16, torch.Generator().manual_seed(3)),
            steps=20,
            learning_rate=0.1,
        )
        for _ in range(2)
    ]
    assert np.array_equal(runs[0].batch_loss, runs[1].batch_loss)


def test_a_step_too_large_is_told():
    with pytest.raises(FloatingPointError, match=r"learning_rate 1000.0 is too large"):
        train(ReducedSeparate(start()), fixed_set(batch()), steps=50, learning_rate=1000.0)


@pytest.mark.parametrize("name", ["steps", "learning_rate", "record_every"])
def test_bad_input_is_named(name):
    options = {"steps": 3, "learning_rate": 0.1, "record_every": 1} | {name: 0}
    with pytest.raises(ValueError, match=f"{name} must be .*got 0"):
        train(ReducedSeparate(start()), fixed_set(batch()), **options)


def test_no_network_is_told():
    with pytest.raises(TypeError, match=r"networks must be at least one torch\.nn\.Module, got \[\]"):
        train([], fixed_set(batch()), steps=1, learning_rate=0.1)
    with pytest.raises(TypeError, match=r"networks must be a network or a list of them, got 3"):
        train(3, fixed_set(batch()), steps=1, learning_rate=0.1)
    with pytest.raises(ValueError, match="batch_size must be an integer of at least 1, got 0"):
        fresh_batches(TASK, 0, torch.Generator())


def test_only_reduced_attention_has_an_effective_map():
    run = train(MergedAttention(np.ones((1, 4, 4)), np.ones((1, 4, 4))), fixed_set(batch()), steps=1, learning_rate=0.01)
    with pytest.raises(ValueError, match="only attention"):
        run.effective_maps()


def test_no_progress_bar_where_nobody_looks(capfd):
    train(ReducedSeparate(start()), fixed_set(batch()), steps=3, learning_rate=0.1)
    assert capfd.readouterr().err == ""
    train(ReducedSeparate(start()), fixed_set(batch()), steps=3, learning_rate=0.1, progress=True)
    assert "training" in capfd.readouterr().err


def test_momentum_is_that_of_torch():
    """The same weights as torch.optim.SGD with momentum, on one training set."""
    X, y = draw_sequences(TASK, 40, torch.Generator().manual_seed(3))
    run = train(ReducedSeparate(start()), fixed_set((X, y)), steps=30, learning_rate=0.05, momentum=0.9, progress=False)
    network = ReducedSeparate(start())
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    for _ in range(30):
        optimizer.zero_grad()
        (network(X) - y).square().mean().backward()
        optimizer.step()
    np.testing.assert_allclose(run.times, np.arange(31) * 0.1 / 0.1, rtol=1e-12)
    for name, parameter in network.named_parameters():
        np.testing.assert_allclose(run.states[name][-1], parameter.detach().numpy(), rtol=1e-9)


def test_momentum_must_be_below_one():
    with pytest.raises(ValueError, match="momentum must be below 1"):
        train(ReducedSeparate(start()), fresh_batches(TASK, 4, torch.Generator()), steps=1, learning_rate=0.1, momentum=1.0)


def test_adam_and_signs_are_those_of_torch():
    """One network as torch.optim.Adam; several together as each alone; signs from the gradient's definition."""
    X, y = draw_sequences(TASK, 40, torch.Generator().manual_seed(3))
    given = {"steps": 20, "learning_rate": 0.05, "progress": False}
    run = train(ReducedSeparate(start()), fixed_set((X, y)), optimizer="adam", **given)
    signs = train(ReducedSeparate(start()), fixed_set((X, y)), optimizer="sign", **given)
    both = train([ReducedSeparate(start())] * 2, fixed_set((X, y)), optimizer="adam", **given)
    network = ReducedSeparate(start())
    optimizer = torch.optim.Adam(network.parameters(), lr=0.05)
    for step in range(20):
        optimizer.zero_grad()
        (network(X) - y).square().mean().backward()
        for name, parameter in network.named_parameters() if step == 0 else ():
            assert parameter.grad is not None
            move = signs.states[name][1] - signs.states[name][0]
            np.testing.assert_allclose(move, -0.05 * np.sign(parameter.grad.numpy()), atol=1e-15)
        optimizer.step()
    np.testing.assert_allclose(run.times, 0.05 * np.arange(21))
    for name, parameter in network.named_parameters():
        np.testing.assert_allclose(run.states[name][-1], parameter.detach().numpy(), rtol=1e-9)
        np.testing.assert_allclose(both.states[name][-1], [run.states[name][-1]] * 2, rtol=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"optimizer": "Adam"}, "optimizer must be one of sgd, adam, sign, got 'Adam'"), ({"momentum": 0.5}, "momentum must be 0 with the")],
)
def test_bad_optimizers_are_named(change, message):
    given = {"optimizer": "adam", **change}
    with pytest.raises(ValueError, match=message):
        train(ReducedSeparate(start()), fresh_batches(TASK, 4, torch.Generator()), steps=1, learning_rate=0.1, **given)
