"""The powers of the scale in (V6-five-error), from the singular values of all sectors."""

import numpy as np
import pytest
from iclflow.verify.claims.in_weight.five_weights import ERROR_SETTINGS, across_rate, powers, symmetric_only


def test_heads_that_turn_rule_the_error_where_their_rate_is_high():
    """Powers from the singular values of E(y phi) in all sectors, as numbers."""
    for setting in ERROR_SETTINGS:
        A = setting.problem(0).training_loss.A
        first, *others = np.linalg.svd(A.reshape(len(A), -1), compute_uv=False)
        np.testing.assert_allclose(sorted(others)[-1], across_rate(setting), rtol=1e-12)
        second = symmetric_only(setting)[0]
        in_map, in_losses = powers(setting)
        np.testing.assert_allclose(in_map, 1 - others[0] / first, rtol=1e-12)
        np.testing.assert_allclose(in_losses, min(second, 2 * in_map), rtol=1e-12)
    assert powers(ERROR_SETTINGS[0])[1] == pytest.approx(0.8564, abs=1e-4)
    assert powers(ERROR_SETTINGS[1]) == pytest.approx((0.3032, 0.6064), abs=1e-4)
