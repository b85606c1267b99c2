"""Merged attention on white tokens: the sigmoid (15) and its loss (48), and any balanced start (T6-white)."""

from dataclasses import dataclass

from ...theory import notation
from ...theory.notation import D, N, lambda_
from .._checks import between, finite_array, positive_integer, positive_number, within_float64
from ..compilation.equations import compiled
from .scalar import Array


@dataclass(frozen=True)
class WhiteReduction:
    r"""Merged attention on white tokens, :math:`\Lambda = \lambda I`: equations (45)-(48), and any balanced start.

    Raises ``ValueError`` unless ``dimension`` and ``context_length`` are positive integers, ``eigenvalue`` and ``tau`` positive.
    """

    dimension: int
    context_length: int
    eigenvalue: float = 1.0
    tau: float = 1.0

    def __post_init__(self) -> None:
        for name in ("dimension", "context_length"):
            object.__setattr__(self, name, positive_integer(name, getattr(self, name)))
        for name in ("eigenvalue", "tau"):
            object.__setattr__(self, name, positive_number(name, getattr(self, name)))

    @property
    @within_float64
    def moments(self) -> tuple[float, float]:
        """gamma and alpha, equation (47)."""
        constants = compiled("47", (lambda_, D, N), part=("scaled gamma", "scaled alpha"))
        gamma, alpha = constants(self.eigenvalue, self.dimension, self.context_length)
        return float(gamma), float(alpha)

    @within_float64
    def sigma(self, t: Array, s_0: float) -> Array:
        r"""Equation (15) at times t from :math:`s_0 = w_2^\top w_2` at time 0."""
        t, s_0 = finite_array("t", t), positive_number("s_0", s_0)
        sigma = compiled("15", (notation.t, notation.s_0, lambda_, D, N, notation.tau), part="scaled")
        return sigma(t, s_0, self.eigenvalue, self.dimension, self.context_length, self.tau)

    @within_float64
    def loss(self, t: Array, s_0: float) -> Array:
        """Equation (48)."""
        loss = compiled("48", (notation.sigma_level, lambda_, D, N), part="scaled")
        return loss(self.sigma(t, s_0), self.eigenvalue, self.dimension, self.context_length)

    @within_float64
    def balanced(self, t: Array, s_0: float, p_0: float) -> tuple[Array, Array]:
        """s(t) and the cosine p(t) between vec(B) and vec(I), from any balanced start with -1 < p_0 < 1."""
        t, s_0, p_0 = finite_array("t", t), positive_number("s_0", s_0), between("p_0", p_0, -1, 1)
        letters = (notation.t, notation.s_0, notation.p_0, notation.gamma, notation.alpha, notation.tau)
        return compiled("T6-white", letters, part=("s in time", "p in time"))(t, s_0, p_0, *self.moments, self.tau)

    @within_float64
    def time_to(self, fraction: float, s_0: float) -> float:
        """The exact time at which sigma is ``fraction`` of its final value, from an s_0 below it; (49) is its leading logarithm."""
        fraction, s_0, (gamma, alpha) = between("fraction", fraction, 0, 1), positive_number("s_0", s_0), self.moments
        if s_0 >= gamma / alpha:
            raise ValueError(f"s_0 must be below its final value {gamma / alpha:.6g}, got {s_0!r}")
        letters = (notation.rho, notation.s_0, notation.gamma, notation.alpha, notation.tau)
        time = compiled("49-exact", letters, part="fraction")
        return float(time(fraction, s_0, gamma, alpha, self.tau))
