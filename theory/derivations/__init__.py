"""What a derivation is, how an equation is registered, and both as documents."""

from .conditions import Condition
from .derivation import Derivation
from .heads import E, Gradient, Rate, SecondVariation, SumOver, as_sympy, carried_out
from .lines import Line, Lines
from .points import Point, value_at
from .registry import define, erratum, given, note, register, states
