"""Random numbers by seed and key: the same again, others for another seed or key, and memory that keeps seeds apart."""

import pytest
import torch
from iclflow.verify.experiments import draws


def test_seed_and_key_make_the_numbers():
    first = draws.generator(1).standard_normal(3).tolist()
    assert draws.generator(1).standard_normal(3).tolist() == first != draws.generator(2).standard_normal(3).tolist()
    with draws.seeded(4):
        other = draws.generator(1).standard_normal(3).tolist()
        inside = torch.randn(2, generator=draws.torch_generator(5))
    assert draws.generator(1).standard_normal(3).tolist() == first != other
    assert not torch.equal(torch.randn(2, generator=draws.torch_generator(5)), inside)


def test_memory_keeps_seeds_apart():
    calls = []

    @draws.remembered
    def one(value):
        """Documented."""
        calls.append(value)
        return draws.number(value)

    outside = one(3)
    with draws.seeded(1):
        assert one(3) == one(3) != outside
    assert one(3) == outside
    assert calls == [3, 3]
    assert one.__doc__ == "Documented."


@pytest.mark.parametrize("seed", [-1, 1.5, True, "0"])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(ValueError, match="seed must be an integer of at least 0, got"), draws.seeded(seed):
        pass
