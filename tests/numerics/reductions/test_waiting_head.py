"""Waiting heads by quadrature, against their own cubic flow."""

import numpy as np
import pytest
from iclflow.numerics.reductions.waiting_head import WaitingHead

FREQUENCIES = np.array([0.4, 0.3, 0.2, 0.1])


def random_head(rng, rank=1, frequencies=FREQUENCIES):
    scale = 10.0 ** rng.uniform(-14, 0)
    k, q = scale * rng.normal(size=(2, rank, len(frequencies))) / 2
    return WaitingHead(0.2 * scale * rng.normal(), k, q, frequencies)


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("learned", [0, 2])
def test_quadrature_is_the_cubic_flow(rank, learned):
    rng = np.random.default_rng(10 * rank + learned)
    frequencies = np.where(np.arange(4) < learned, 0.0, FREQUENCIES)
    turns = 0
    for _ in range(15):
        head = random_head(rng, rank, frequencies)
        escape = head.escape_time()
        for fraction in (0.2, 0.9):
            exact, flow = head.after(fraction * escape), head.flow(fraction * escape)
            np.testing.assert_allclose(exact.k, flow.k, atol=1e-7 * flow.size)  # solver: rtol 1e-10 over the plateau
            np.testing.assert_allclose(exact.q, flow.q, atol=1e-7 * flow.size)
            assert exact.v == pytest.approx(flow.v, abs=1e-7 * flow.size)
        assert 0.9 * escape + flow.escape_time() == pytest.approx(escape, rel=1e-7), "T5"
        stays = np.abs(exact.k[:, :learned] - head.k[:, :learned])
        assert stays.max(initial=0.0) <= 1e-15 * head.size, "(70): learned directions stay"
        conserved = [np.sum(h.k**2) - h.v**2 for h in (head, exact)]
        assert conserved[1] == pytest.approx(conserved[0], abs=1e-9 * exact.size**2), "(79)"
        turns += np.isfinite(head.turning_point)
    assert 0 < turns < 15  # both kinds of path were met


def test_special_heads():
    e_1 = np.array([[0.1, 0, 0, 0]])
    aligned = WaitingHead(0.1, e_1, e_1, FREQUENCIES)
    assert aligned.escape_time() == pytest.approx(1 / (0.4**2 * 0.1), rel=1e-12), "(68) on the ansatz"
    against = WaitingHead(-0.1, e_1, e_1, FREQUENCIES)
    assert against.escape_time() == np.inf, "v < 0 within the ansatz never escapes (67)"
    assert against.after(100.0).v == pytest.approx(-1 / (10 + 0.16 * 100), rel=1e-6)
    mirrored = WaitingHead(-0.1, -e_1, e_1, FREQUENCIES)
    assert mirrored.escape_time() == pytest.approx(aligned.escape_time(), rel=1e-12), "the sign orbit of (25)"
    nothing = WaitingHead(0.0, 0 * e_1, 0 * e_1, FREQUENCIES)
    assert nothing.escape_time() == np.inf
    assert nothing.after(5.0) is nothing
    at_rest = WaitingHead(0.0, e_1, np.array([[0.1, 0, 0, 0.1]]), FREQUENCIES)  # v = 0 at the start, but not at rest
    assert at_rest.after(10.0).v == pytest.approx(at_rest.flow(10.0).v, rel=1e-8)
    with pytest.raises(ValueError, match="time must lie between"):
        aligned.after(1e6)
    with pytest.raises(ValueError, match="frequencies"):
        WaitingHead(0.1, e_1, e_1, -FREQUENCIES)
