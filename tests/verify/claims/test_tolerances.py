"""Tolerances are bounds with a reason."""

import math

import pytest
from iclflow.verify.claims.tolerances import Tolerance


@pytest.mark.parametrize("value", [-1.0, math.inf, math.nan])
def test_a_tolerance_is_a_bound(value):
    with pytest.raises(ValueError, match="value must be"):
        Tolerance(value, "because")
    with pytest.raises(ValueError, match="reason"):
        Tolerance(1.0, "")
