r"""Does ``holds()`` refuse wrong statements? Every typed statement of the registry is mutated, and every mutant has to be refused.

A mutation changes one place of one formula: a sign, an exponent, a factor, N to N + 1, a transposition, a letter for another of the same
shape, a dropped term. A mutant that still says the same (a transposed projector, a letter exchanged with itself by symmetry) is no
fault, and must be accepted. Whether it says the same is decided without the algebra that ``holds()`` rests on where that is possible: both
formulas are evaluated in NumPy at random points (``random_points``).

Run it as ``python benchmarks/statement_mutations.py [--equation N ...] [--each 12]``. It prints, for each equation, how
many mutants there were, how many were refused, and every survivor with the ground on which it is equal. It exits with 1 if a wrong mutant
was accepted, or a right one refused.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import sympy
from iclflow.theory.algebra.polynomial import TracePolynomial
from iclflow.theory.calculus.equality import equal
from iclflow.theory.derivations.registry import Equation
from iclflow.theory.equations import equations
from iclflow.theory.notation import Lambda, Lambda_hat, M, N, beta, w, x_q
from random_points import SIZES, CannotEvaluateError, same_numbers
from sympy import MatrixBase, MatrixExpr, MatrixSymbol, Symbol, Trace
from sympy.matrices.expressions import BlockMatrix, Identity, Inverse, MatAdd, MatMul, MatPow, Transpose, ZeroMatrix

# Letters that may be mistaken for others, whether the statement has them or not
ALPHABET = {Lambda, Lambda_hat, M, w, x_q, beta}


@dataclass(frozen=True)
class Mutant:
    """One changed statement: what was done, whether it still equals the original and on what ground, whether ``holds()`` took it."""

    number: str
    change: str
    equals: bool
    ground: str
    accepted: bool

    @property
    def fault(self) -> bool:
        return self.equals != self.accepted


def mutants(entry: Equation, limit: int, rng: np.random.Generator) -> Iterator[tuple[str, Any, Any, Any]]:
    """At most ``limit`` of (change, mutated statement, original formula, mutated formula), taking the kinds of change in turn."""
    statement = entry.statement
    by_kind: dict[str, list] = {}
    for path, formula in leaves(statement):
        for kind, template, subject, place, make in changes(formula):
            by_kind.setdefault(kind, []).append((f"{kind} {template}", subject, path, formula, place, make))
    for candidates in by_kind.values():
        rng.shuffle(candidates)  # type: ignore[arg-type]
    taken = 0
    while taken < limit and any(by_kind.values()):
        for candidates in by_kind.values():
            if candidates and taken < limit:
                template, subject, path, formula, place, make = candidates.pop()
                mutated = _formula_with(formula, place, make)
                if mutated is not None:
                    taken += 1
                    where = "".join(f"[{step}]" for step in path)
                    change = template.format(subject) + (f" in {where}" if where else "")
                    yield change, rebuilt(statement, path, mutated), formula, mutated


def leaves(statement: Any, path: tuple = ()) -> Iterator[tuple[tuple, sympy.Basic]]:
    """The formulas of a statement, each with the way to it through mappings, sequences and explicit matrices."""
    if isinstance(statement, Mapping):
        for key, part in statement.items():
            yield from leaves(part, (*path, key))
    elif isinstance(statement, tuple | list):
        for index, part in enumerate(statement):
            yield from leaves(part, (*path, index))
    elif isinstance(statement, MatrixBase):
        for i in range(statement.rows):
            for j in range(statement.cols):
                yield (*path, (i, j)), statement[i, j]
    else:
        formula = statement.to_sympy() if isinstance(statement, TracePolynomial) else sympy.sympify(statement)
        if isinstance(formula, sympy.Basic):
            yield path, formula


def rebuilt(statement: Any, path: tuple, formula: sympy.Basic) -> Any:
    """The statement with one of its formulas replaced."""
    if not path:
        return formula
    step, rest = path[0], path[1:]
    if isinstance(statement, Mapping):
        return {key: rebuilt(part, rest, formula) if key == step else part for key, part in statement.items()}
    if isinstance(statement, MatrixBase):
        changed = statement.as_mutable()
        changed[step] = formula
        return changed.as_immutable()
    return type(statement)(rebuilt(part, rest, formula) if i == step else part for i, part in enumerate(statement))


def changes(formula: sympy.Basic) -> Iterator[tuple[str, str, Any, tuple, Callable[[], Any]]]:
    """(kind, description, what is changed, its place, how to make the new node) of every change of one place."""
    letters = sorted(formula.atoms(MatrixSymbol) | ALPHABET, key=str)
    yield "sign", "of the whole", None, (), lambda: -formula
    yield "factor", "2 on the whole", None, (), lambda: 2 * formula
    yield "factor", "1 + 1/N on the whole", None, (), lambda: (1 + 1 / N) * formula
    scalars = sorted(formula.free_symbols - {N} - set(SIZES), key=str)
    scalars = [symbol for symbol in scalars if isinstance(symbol, Symbol)]
    for place, node in _places(formula):
        for kind, template, subject, make in _node_changes(node, letters, scalars):
            yield kind, template, subject, place, make


def _formula_with(formula, place: tuple, make: Callable[[], Any]) -> sympy.Basic | None:
    """The formula with one node replaced; None where that changes nothing or is no formula, such as a sum of unlike shapes."""
    try:
        mutated = _with(formula, place, make())
        return mutated if mutated != formula and _is_well_formed(mutated) else None
    except (ValueError, TypeError, AttributeError, NotImplementedError):
        return None


def _node_changes(node, letters, scalars) -> Iterator[tuple[str, str, Any, Callable[[], Any]]]:
    if isinstance(node, sympy.Add | MatAdd):
        for i, term in enumerate(node.args):
            yield "sign", "of {}", term, partial(_sum_with, node, i, -1)
            yield "factor", "2 on {}", term, partial(_sum_with, node, i, 2)
            yield "dropped", "{}", term, partial(_sum_with, node, i, 0)
    elif isinstance(node, sympy.Pow | MatPow) and not isinstance(node, Inverse) and node.exp.is_number:
        yield "exponent", "of {}, by 1 more", node, lambda: node.func(node.base, node.exp + 1)
        if isinstance(node, sympy.Pow):
            yield "exponent", "of {}, negated", node, lambda: sympy.Pow(node.base, -node.exp)
    elif isinstance(node, Inverse):
        yield "exponent", "of {}, negated", node, lambda: node.arg
    elif isinstance(node, Transpose):
        yield "transposed", "{}", node, lambda: node.arg
    elif isinstance(node, MatrixSymbol):
        square = node.shape[0] == node.shape[1] != 1
        if square and not getattr(node, "is_symmetric_letter", False):
            yield "transposed", "{}", node, lambda: node.T
        for other in letters:
            if other != node and other.shape == node.shape:
                yield "letter", "{0[0]} for {0[1]}", (other, node), partial(_itself, other)
        if square:
            yield "exponent", "of {}, by 1 more", node, lambda: node * node
    elif node == N:
        yield "N", "to N + 1", None, lambda: N + 1
    elif isinstance(node, Symbol):
        yield "exponent", "of {}, by 1 more", node, lambda: node**2
        yield "factor", "2 on {}", node, lambda: 2 * node
        for other in scalars:
            if other != node:
                yield "letter", "{0[0]} for {0[1]}", (other, node), partial(_itself, other)
    elif isinstance(node, sympy.Rational) and node not in (0, -1):
        yield "factor", "1 more than {}", node, lambda: node + 1
    elif isinstance(node, Trace | sympy.Function):
        yield "sign", "of {}", node, lambda: -node
        yield "factor", "2 on {}", node, lambda: 2 * node


def _itself(node):
    return node


def _sum_with(node, index: int, factor: int):
    """The sum with one term multiplied by a factor, or dropped."""
    others = [term for i, term in enumerate(node.args) if i != index]
    if factor:
        return node.func(*others, factor * node.args[index])
    return node.func(*others) if len(others) > 1 else others[0]


def _places(formula: sympy.Basic, place: tuple = ()) -> Iterator[tuple[tuple, sympy.Basic]]:
    """Every node with its place; not inside letters, nor at the exponents and bound indices, where a change may not be a formula."""
    yield place, formula
    if isinstance(formula, MatrixSymbol | Symbol | Identity | ZeroMatrix | sympy.Sum | sympy.Integral | sympy.Indexed):
        if isinstance(formula, sympy.Sum | sympy.Integral):
            yield from _places(formula.args[0], (*place, 0))
        return
    for i, argument in enumerate(_arguments(formula)):
        if not (i == 1 and isinstance(formula, sympy.Pow | MatPow)):
            yield from _places(argument, (*place, i))


def _arguments(formula) -> list:
    return list(formula.blocks) if isinstance(formula, BlockMatrix) else list(formula.args)


def _with(formula, place: tuple, new):
    """The formula with the node at a place replaced."""
    if not place:
        return new
    arguments = _arguments(formula)
    arguments[place[0]] = _with(arguments[place[0]], place[1:], new)
    if isinstance(formula, BlockMatrix):
        return BlockMatrix(sympy.ImmutableDenseMatrix(*formula.blocks.shape, arguments))
    if isinstance(formula, MatMul | MatAdd | MatPow | Inverse | Transpose):
        return formula.func(*arguments).doit(deep=False) if isinstance(formula, MatMul) else formula.func(*arguments)
    return formula.func(*arguments)


def _is_well_formed(formula) -> bool:
    """Can the algebra read it? A mutated sum of unlike shapes is no statement."""
    if formula.has(sympy.nan, sympy.zoo):
        return False
    if isinstance(formula, MatrixExpr) or formula.has(Trace):
        TracePolynomial(formula)
    return True


def equals_original(original, mutated, rng: np.random.Generator) -> tuple[bool, str]:
    try:
        return same_numbers(original, mutated, rng), "numbers"
    except (CannotEvaluateError, TypeError, ValueError, OverflowError, ZeroDivisionError, np.linalg.LinAlgError):
        return equal(original, mutated), "algebra"


def tried(entry: Equation, limit: int, rng: np.random.Generator) -> list[Mutant]:
    """The mutants of one equation, each put to ``holds()``."""
    done = []
    for change, statement, original, mutated in mutants(entry, limit, rng):
        equals, ground = equals_original(original, mutated, rng)
        accepted = replace(entry, typed=lambda statement=statement: statement).holds()
        done.append(Mutant(entry.number, change, equals, ground, accepted))
    return done


def derived_equations() -> tuple[Equation, ...]:
    return tuple(entry for entry in equations() if entry.derivation is not None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--equation", nargs="+", choices=[one.number for one in derived_equations()], metavar="N", help="these entries only"
    )
    parser.add_argument("--each", type=int, default=12, help="mutants per equation at most (default 12)")
    options = parser.parse_args()
    chosen = [one for one in derived_equations() if not options.equation or one.number in options.equation]
    total: list[Mutant] = []
    began = time.perf_counter()
    for entry in chosen:
        start = time.perf_counter()
        found = tried(entry, options.each, np.random.default_rng(7))
        total += found
        refused = sum(not mutant.accepted for mutant in found)
        print(f"({entry.number}) {len(found)} mutants, {refused} refused, {time.perf_counter() - start:.2f} s")
        for mutant in found:
            if mutant.accepted or mutant.fault:
                verdict = "FAULT" if mutant.fault else "equal"
                print(f"    {verdict}: {mutant.change}; equal by {mutant.ground}: {mutant.equals}, accepted: {mutant.accepted}")
    faults = [mutant for mutant in total if mutant.fault]
    equals = sum(mutant.equals for mutant in total)
    by_numbers = sum(mutant.ground == "numbers" for mutant in total)
    print(
        f"{len(total)} mutants of {len(chosen)} equations in {time.perf_counter() - began:.1f} s: "
        f"{sum(not mutant.accepted for mutant in total)} refused, {equals} equal to the original and accepted, {len(faults)} faults; "
        f"equality decided by numbers for {by_numbers}"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
