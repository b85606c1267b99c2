"""Matrix expressions as a tape of NumPy or mpmath operations in which nothing is computed twice.

SymPy's own code printers know neither symbolic identities nor traces, and evaluate every product afresh. Here each node
of the expression becomes one entry of a tape; equal nodes share an entry, and so do equal beginnings of products. NumPy arrays and
PyTorch tensors may be stacked: matrices lie on the last two axes, and the axes in front of them broadcast against those of the scalars.
"""

import sys
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add, mul
from typing import Any

import mpmath
import numpy as np
from sympy import Add, Basic, Dummy, Integer, Symbol
from sympy.matrices.expressions import (
    Determinant,
    Identity,
    Inverse,
    MatAdd,
    MatMul,
    MatPow,
    MatrixExpr,
    MatrixSymbol,
    Trace,
    Transpose,
    ZeroMatrix,
)
from sympy.matrices.expressions.kronecker import KroneckerProduct
from sympy.matrices.expressions.matexpr import MatrixElement
from sympy.matrices.matrixbase import MatrixBase

Values = list[Any]
Step = Callable[[Values], Any]


def _array_operations(xp: Any) -> dict[str, Callable]:
    """The operations on arrays of NumPy, or on tensors of PyTorch, which share these names."""
    return {
        "product": xp.matmul,
        "scaled": lambda scalar, matrix: (scalar[..., None, None] if getattr(scalar, "ndim", 0) else scalar) * matrix,
        "transpose": lambda matrix: matrix.swapaxes(-1, -2),
        "inverse": xp.linalg.inv,
        "determinant": xp.linalg.det,
        "trace": lambda matrix: matrix.diagonal(0, -2, -1).sum(-1),
        "trace_of_product": lambda left, right: xp.einsum("...ij,...ji->...", left, right),
        "identity": lambda size: xp.eye(size, dtype=xp.float64),
        "zero": lambda rows, columns: xp.zeros((rows, columns), dtype=xp.float64),
        "kron": lambda left, right: _kron_of_stacks(xp.einsum("...ij,...kl->...ikjl", left, right)),
        "entry": lambda matrix, i, j: matrix[..., i, j],
    }


def _kron_of_stacks(product: Any) -> Any:
    *lead, i, k, j, m = product.shape
    return product.reshape(*lead, i * k, j * m)


def stacked(backend: str, entries: Sequence[Any], shape: tuple[int, int]) -> Any:
    """The matrices whose entries are given, each an array of one shape or a number."""
    if backend == "numpy":
        together = np.stack(np.broadcast_arrays(*entries), axis=-1)
    else:
        torch = sys.modules["torch"]
        like = next((one for one in entries if isinstance(one, torch.Tensor)), torch.zeros((), dtype=torch.float64))
        tensors = (torch.as_tensor(one, dtype=like.dtype, device=like.device) for one in entries)
        together = torch.stack(torch.broadcast_tensors(*tensors), dim=-1)
    return together.reshape(*together.shape[:-1], *shape)


def _trace(matrix: Any) -> Any:
    return mpmath.fsum(matrix[i, i] for i in range(matrix.rows))


def _kron(left: Any, right: Any) -> Any:
    rows, columns = right.rows, right.cols
    return mpmath.matrix(
        [
            [left[i // rows, j // columns] * right[i % rows, j % columns] for j in range(left.cols * columns)]
            for i in range(left.rows * rows)
        ]
    )


_MPMATH: dict[str, Callable] = {
    "matrix": lambda value: value if isinstance(value, mpmath.matrix) else mpmath.matrix(np.asarray(value).tolist()),
    "product": mul,
    "scaled": mul,
    "transpose": lambda matrix: matrix.T,
    "inverse": lambda matrix: matrix**-1,
    "determinant": mpmath.det,
    "trace": _trace,
    "trace_of_product": lambda left, right: _trace(left * right),
    "identity": mpmath.eye,
    "zero": mpmath.zeros,
    "kron": _kron,
    "entry": lambda matrix, i, j: matrix[i, j],
}


def compile_matrix_expression(
    expr: Basic, arguments: tuple[Basic, ...], backend: str, convert: Callable[[Any], Any], compile_scalar: Callable
) -> Callable[..., Any]:
    """A function that computes ``expr``, an expression in matrix symbols or their sizes.

    ``convert`` makes a value one of the backend's numbers or arrays; ``compile_scalar`` compiles the scalar parts.
    """
    operations = _MPMATH if backend == "mpmath" else _array_operations(np if backend == "numpy" else sys.modules["torch"])
    tape = _Tape(arguments, operations, convert, lambda e, a: compile_scalar(e, a, backend))
    answer = tape.index(expr)
    steps = tape.steps

    def evaluate(*values: Any) -> Any:
        registers = tape.read(values)
        for step in steps:
            registers.append(step(registers))
        return registers[answer]

    return evaluate


class _Tape:
    """Steps, each of which computes a register from those before it. The first registers hold the arguments and their sizes."""

    def __init__(self, arguments: tuple[Basic, ...], operations: dict[str, Callable], convert: Callable, compile_scalar: Callable) -> None:
        self.arguments, self.operations, self.compile_scalar = arguments, operations, compile_scalar
        self.convert, self.matrix = convert, operations.get("matrix", convert)
        self.shapes: list[tuple[Any, ...] | None] = [one.shape if isinstance(one, MatrixSymbol) else None for one in arguments]
        dimensions = dict.fromkeys(size for shape in self.shapes for size in shape or ())
        self.given_sizes = [place for place, argument in enumerate(arguments) if argument in dimensions]
        self.sizes = [size for size in dimensions if isinstance(size, Symbol) and size not in arguments]
        self.registers = {name: index for index, name in enumerate([*arguments, *self.sizes])}
        self.steps: list[Step] = []

    def read(self, values: tuple) -> Values:
        if len(values) != len(self.arguments):
            raise TypeError(f"expected values of {self.arguments}, got {len(values)} of them")
        sizes: dict[Any, int] = {self.arguments[place]: int(values[place]) for place in self.given_sizes}
        registers: Values = []
        for name, symbolic, value in zip(self.arguments, self.shapes, values, strict=True):
            if symbolic is None:
                registers.append(sizes[name] if name in sizes else self.convert(value))
                continue
            matrix = self.matrix(value)
            shape = (matrix.rows, matrix.cols) if isinstance(matrix, mpmath.matrix) else np.shape(matrix)
            wanted = tuple(
                sizes.setdefault(size, have) if isinstance(size, Symbol) else int(size if size.is_Integer else size.subs(sizes))
                for size, have in zip(symbolic, shape[-2:], strict=False)
            )
            if len(shape) < 2 or tuple(shape[-2:]) != wanted:
                raise ValueError(f"{name} must have shape {wanted} to agree with the others, got {shape}")
            registers.append(matrix)
        return registers + [sizes[size] for size in self.sizes]

    def index(self, expr: Basic) -> int:
        """The register that will hold ``expr``."""
        if expr not in self.registers:
            step = self._matrix(expr) if isinstance(expr, MatrixExpr) else self._scalar(expr)
            self.steps.append(step)
            self.registers[expr] = len(self.arguments) + len(self.sizes) + len(self.steps) - 1
        return self.registers[expr]

    def _call(self, name: str, *operands: Basic) -> Step:
        operation, places = self.operations[name], [self.index(operand) for operand in operands]
        return lambda registers: operation(*(registers[place] for place in places))

    def _matrix(self, expr: MatrixExpr) -> Step:
        match expr:
            case MatAdd():
                places = [self.index(term) for term in expr.args]
                return lambda registers: reduce(add, (registers[place] for place in places))
            case MatMul():
                scalar, factors = expr.as_coeff_matrices()
                if scalar != 1:
                    return self._call("scaled", scalar, MatMul(*factors) if len(factors) > 1 else factors[0])
                return self._call("product", MatMul(*factors[:-1]) if len(factors) > 2 else factors[0], factors[-1])
            case MatPow(base=base, exp=Integer(p=power)) if power > 1:
                return self._call("product", MatPow(base, power - 1).doit(), base)
            case MatPow(base=base, exp=Integer(p=power)) if power < 0:
                return self._call("inverse", MatPow(base, -power).doit())
            case Transpose():
                return self._call("transpose", expr.arg)
            case Inverse():
                return self._call("inverse", expr.arg)
            case Identity():
                return self._call("identity", expr.shape[0])
            case ZeroMatrix():
                return self._call("zero", *expr.shape)
            case KroneckerProduct() if len(expr.args) == 2:
                return self._call("kron", *expr.args)
            case MatrixSymbol():
                raise ValueError(f"arguments must contain {expr}, on which the expression depends: got {self.arguments}")
        raise ValueError(f"expr must be made of sums, products, powers, transposes, inverses and traces, got {expr!r}")

    def _scalar(self, expr: Basic) -> Step:
        match expr:
            case Trace():
                return self._trace(expr.arg)
            case Determinant():
                return self._call("determinant", expr.arg)
            case MatrixElement():
                place, i, j, entry = self.index(expr.parent), int(expr.i), int(expr.j), self.operations["entry"]
                return lambda registers: entry(registers[place], i, j)
            case MatrixBase():
                raise ValueError(f"expr must not mix explicit matrices with matrix symbols, got {expr!r}")
        inner = _outermost(expr)
        names = {node: Dummy() for node in inner}
        bare = expr.xreplace(names)
        known = {symbol for symbol in bare.free_symbols if symbol in self.registers}
        if missing := bare.free_symbols - known - set(names.values()):
            raise ValueError(f"arguments must contain {sorted(map(str, missing))}, which are in the expression: got {self.arguments}")
        operands = [*sorted(known, key=str), *inner]
        places = [self.index(operand) for operand in operands]
        function = self.compile_scalar(bare, (*operands[: len(known)], *names.values()))
        return lambda registers: function(*(registers[place] for place in places))

    def _trace(self, inside: Any) -> Step:
        if isinstance(inside, MatAdd):
            return self._scalar(Add(*(Trace(term) for term in inside.args)))
        if isinstance(inside, MatMul):
            scalar, factors = inside.as_coeff_matrices()
            if scalar != 1:
                left, right = self.index(scalar), self.index(Trace(MatMul(*factors)))
                return lambda registers: registers[left] * registers[right]
            return self._call("trace_of_product", MatMul(*factors[:-1]) if len(factors) > 2 else factors[0], factors[-1])
        match inside:
            case MatPow(base=base, exp=Integer(p=power)) if power > 1:
                return self._call("trace_of_product", MatPow(base, power - 1).doit(), base)
        return self._call("trace", inside)


def _outermost(expr: Basic) -> list[Basic]:
    """The largest scalar nodes of ``expr`` that are made from matrices, each once."""
    if isinstance(expr, (Trace, Determinant, MatrixElement)):
        return [expr]
    return list(dict.fromkeys(node for argument in expr.args for node in _outermost(argument)))
