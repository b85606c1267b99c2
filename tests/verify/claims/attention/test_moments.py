"""The oracle of the rational claims: moments of a Gaussian."""

from fractions import Fraction


def test_pairings_of_a_gaussian():
    """The oracle of the rational claims, against moments that are known: E x^2 = 2, E x^4 = 3 times 2^2."""
    from iclflow.verify.claims.attention.moments import gaussian_moment

    assert gaussian_moment((0, 0)) == 2
    assert gaussian_moment((0, 0, 0, 0)) == 12
    assert gaussian_moment((0, 0, 1, 1)) == 2 * Fraction(3, 4) + 2 * Fraction(1, 4)
    assert gaussian_moment((0, 0, 1)) == 0
