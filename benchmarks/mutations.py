"""Plant one fault at a time in a copy of the symbolic engine, and see whether its tests notice.

    python benchmarks/mutations.py [--jobs 2] [--only TEXT]

Each mutation replaces one piece of text, which must occur exactly once in its module, in a temporary copy of the theory package that
comes first on the path; the engine's tests then run until something fails. A mutation that no test notices is a survivor: the script
names it and exits with 1. The working tree is never touched.

All 127 are caught; a run takes a quarter of an hour on one core.
"""

import argparse
import contextlib
import importlib
import io
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
TESTS = [
    "expectation/test_moments",
    "expectation/test_laws",
    "calculus/test_substitution",
    "calculus/test_entrywise",
    "algebra/test_polynomial",
    "algebra/test_printing",
    "expectation/test_moments_oracle",
    "calculus/test_derivatives",
]  # the quick ones first


class Mutation(NamedTuple):
    module: str
    old: str
    new: str
    breaks: str


# ruff: noqa: E501  (one line a mutation: what is replaced, by what)
MUTATIONS = [
    # Words: letters, transposes, cancellation, rotations, cuts
    Mutation("algebra/words", "symmetric = getattr(symbol, \"is_symmetric_letter\", False) or symbol.shape", "symmetric = symbol.shape", "symmetric letters differ from their transposes"),
    Mutation("algebra/words", "_transposed.append(code & ~1 if symmetric else code ^ 1)", "_transposed.append(code & ~1)", "every letter is symmetric"),
    Mutation("algebra/words", "_starts_cut.append(column if flipped else row)", "_starts_cut.append(row)", "a transposed vector is not seen to start a scalar"),
    Mutation("algebra/words", "_ends_cut.append(row if flipped else column)", "_ends_cut.append(column)", "a transposed vector is not seen to end a scalar"),
    Mutation("algebra/words", "return _symbols[code >> 2].shape[code & 1]", "return _symbols[code >> 2].shape[0]", "rows of a transposed rectangle"),
    Mutation("algebra/words", "return tuple([_transposed[code] for code in reversed(word)])", "return tuple([_transposed[code] for code in word])", "transposition keeps the order"),
    Mutation("algebra/words", "return tuple([code ^ 2 for code in reversed(word)])", "return tuple([code ^ 2 for code in word])", "an inverse keeps the order"),
    Mutation("algebra/words", "if kept and kept[-1] == code ^ 2:", "if kept and kept[-1] == code ^ 3:", "letters cancel their inverse transposes"),
    Mutation("algebra/words", "    return tuple(kept)\n", "    return word\n", "inverses do not cancel"),
    Mutation("algebra/words", "n, turned = len(word), transpose(word)", "n, turned = len(word), word", "traces are not transposed"),
    Mutation("algebra/words", "n, turned = len(word), transpose(word)", "n, turned = len(word), word[::-1]", "traces are reversed without transposing"),
    Mutation("algebra/words", "for start in range(n) if ring[start] == least", "for start in range(1, n) if ring[start] == least", "one rotation is missed"),
    Mutation("algebra/words", "while len(word) > 1 and word[0] == word[-1] ^ 2:", "while False:", "inverses do not cancel across the ends of a trace"),
    Mutation("algebra/words", "        return [], [size]\n", "        return [], []\n", "tr(I) = 1"),
    Mutation("algebra/words", "    if len(cuts) < 2:\n", "    if len(cuts) < 3:\n", "a trace with two cuts stays one word"),
    Mutation("algebra/words", "    word = word[cuts[0] :] + word[: cuts[0]]\n", "    word = word[cuts[0] :]\n", "what precedes the first cut is lost"),
    Mutation("algebra/words", "    if not cuts and not (row and column):\n", "    if not (row and column):\n", "scalars inside an open word are not cut out"),
    Mutation("algebra/words", "    return head + tail, _segments(middle, [cut - cuts[0] for cut in cuts[1:]])", "    return head + tail, []", "scalars between two cuts are dropped"),
    Mutation("algebra/words", "        return word[cuts[-1] :], _segments(word[: cuts[-1]], cuts)", "        return word[cuts[-1] :], []", "scalars before a row are dropped"),
    Mutation("algebra/words", "return head, _segments(rest, [cut - cuts[0] for cut in cuts[1:]] + [len(rest)])", "return head, []", "scalars after a column are dropped"),
    Mutation("algebra/words", "        return None, _segments(word, [*cuts, len(word)])", "        return None, []", "a product of a row and a column is dropped"),
    Mutation("algebra/words", "return symbol.name, code & 3, str(symbol.args)", "return code, code & 3, str(symbol.args)", "the order of terms depends on the order of first sight"),
    # Trace algebra
    Mutation("algebra/coefficients", "exponents[base] = exponents.get(base, 0) + exponent\n    return tuple(sorted", "exponents[base] = exponent\n    return tuple(sorted", "powers of scalars do not add"),
    Mutation("algebra/terms", "    return tuple(sorted([*left, *right]))", "    return tuple([*left, *right])", "products of traces are ordered"),
    Mutation("algebra/terms", "None): number for scalars, number in rational(size)", "None): 1 for scalars, number in rational(size)", "a number in tr(I) is dropped"),
    Mutation("algebra/terms", "    total = terms.get(term, 0) + number\n", "    total = terms.get(term, 0) - number\n", "sign of a repeated term"),
    Mutation("algebra/terms", "        terms.pop(term, None)\n", "        pass\n", "cancelled terms survive"),
    Mutation("algebra/polynomial", "conditions = frozenset().union(*(one.conditions for one in polynomials))", "conditions = polynomials[-1].conditions", "a sum forgets the conditions of one side"),
    Mutation("algebra/arithmetic", "{term: -n for term, n in", "{term: n for term, n in", "negation"),
    Mutation("algebra/polynomial", "        return (-self) + other\n", "        return self + other\n", "subtraction from the left"),
    Mutation("algebra/polynomial", "        return other * self\n", "        return self * other\n", "multiplication from the left"),
    Mutation("algebra/arithmetic", "in_lowest_terms(terms), first[1]", "terms, first[1]", "a sum is not in lowest terms"),
    Mutation("algebra/arithmetic", "in_lowest_terms(multiply_terms(terms_l, terms_r)), shape", "multiply_terms(terms_l, terms_r), shape", "a product is not in lowest terms"),
    Mutation("algebra/arithmetic", "in_lowest_terms(trace_terms(terms, shape[0])), None", "trace_terms(terms, shape[0]), None", "a trace is not in lowest terms"),
    Mutation("algebra/arithmetic", "(scalars, traces, words.transpose(word)): n for", "(scalars, traces, word): n for", "the transpose of a polynomial"),
    Mutation("algebra/arithmetic", "shape[::-1]", "shape", "the shape of a transpose"),
    Mutation("algebra/terms", "else _trace_of_identity(size)).items()", "else {((), (), None): 1}).items()", "the trace of an identity term"),
    Mutation("algebra/polynomial", "        return self.terms == other.terms and (zero_shape or self.shape == other.shape)", "        return self.terms == other.terms", "a scalar equals an identity matrix or shapes are ignored"),
    Mutation("algebra/arithmetic", "shape = _scalar_if_1_by_1((shape_l[0], shape_r[1]))", "shape = shape_l[0], shape_r[1]", "a 1 x 1 product keeps its shape"),
    Mutation("algebra/terms", "(*traces_r, *cut)), word), number_l * number_r)", "traces_r), word), number_l * number_r)", "scalars cut out of a product are dropped"),
    Mutation("algebra/terms", "(*traces_r, *cut)), word), number_l * number_r)", "(*traces_r, *cut)), word), number_l)", "one number of a product is dropped"),
    Mutation("algebra/terms", "word, cut = words.open_(word_l + word_r)", "word, cut = words.open_(word_r + word_l)", "matrices commute"),
    Mutation("algebra/polynomial", "self.conditions | other.conditions)", "other.conditions)", "a product forgets a condition"),
    Mutation("algebra/arithmetic", "        base, exponent = reciprocal(base), -exponent\n", "        exponent = -exponent\n", "negative powers are positive"),
    Mutation("algebra/arithmetic", "        if exponent & 1:\n", "        if True:\n", "powers by squaring"),
    Mutation("algebra/arithmetic", "    shape = _scalar_if_1_by_1(shape)\n    return {((), (),", "    return {((), (),", "the 1 x 1 identity is not the number 1"),
    Mutation("algebra/closing", "class _End(MatrixSymbol):\n    \"\"\"A constant vector that differs from every symbol of a user, whatever its name.\"\"\"", "_End = MatrixSymbol", "the ends of a closed matrix can be a user's symbols"),
    Mutation("algebra/closing", "            if (right and right[0] ^ 1 == turned[0]) or (left and left[0] ^ 1 == turned[-1]):\n                turned = words.transpose(turned)\n", "", "a transposed word is opened the wrong way round"),
    Mutation("algebra/closing", "                tail = turned[:-1]\n", "                tail = turned[:-1][::-1]\n", "the tail of an outer product is reversed"),
    Mutation("algebra/closing", "                others.append(closed)\n        if right", "                pass\n        if right", "opening a matrix drops its scalar factors"),
    Mutation("algebra/coefficients", "tuple((base, -exponent) for base, exponent in scalars)", "scalars", "1/N is N"),
    Mutation("algebra/coefficients", "exact(1 / Fraction(number))}", "number}", "1/2 is 2"),
    Mutation("algebra/arithmetic", "coefficient = words.inverse(word), {", "coefficient = word, {", "the inverse of a word is the word"),
    Mutation("algebra/sympy_conversion", "(Transpose, lambda expression: transpose(read(expression.arg)))", "(Transpose, lambda expression: read(expression.arg))", "transposes are not read"),
    Mutation("algebra/coefficients", "factor, constant = -factor, constant * (-1) ** exponent", "factor, constant = -factor, constant", "the sign of a denominator"),
    Mutation("algebra/sympy_conversion", "    symbol = symbol.T if words.is_transposed(code) else symbol\n", "", "transposes are not written to SymPy"),
    Mutation("algebra/terms", "    names = sorted(words.name_key", "    names = list(words.name_key", "the order of a product of traces depends on the order of first sight"),
    Mutation("algebra/sympy_conversion", "return letter if count == 1 else letter**count", "return letter**count", "the first power of a 3 x 1 matrix is refused"),
    Mutation("algebra/polynomial", "return f\"{self}, for {self.stated_conditions()}\" if self.conditions else str(self)", "return str(self)", "conditions are not shown"),
    Mutation("expectation/laws", "if weight.to_sympy().is_negative:", "if False:", "negative probabilities are accepted"),
    Mutation("expectation/moments", "if isinstance(symbols, str) or not", "if not", "text is taken for symbols that are given"),
    # Moments
    Mutation("expectation/laws", "            if value != value.T:\n", "            if False:\n", "an asymmetric covariance is accepted"),
    Mutation("expectation/laws", "_store(self, name, Identity(size), (size, size))", "_store(self, name, 2 * Identity(size), (size, size))", "the default covariance"),
    Mutation("expectation/laws", "        if total != 1:\n", "        if False:\n", "mixture weights need not sum to 1"),
    Mutation("expectation/moments", "weight * _integrate(polynomial, part) for", "_integrate(polynomial, part) for", "mixtures are not weighted"),
    Mutation("expectation/laws", "return order[::-1]", "return order", "laws are integrated from the innermost out"),
    Mutation("expectation/moments", "polynomial.conditions | moments.conditions, ", "polynomial.conditions, ", "the condition of an inverse is lost"),
    Mutation("expectation/moments", "        if one.symbol in present - given:\n", "        if one.symbol in present:\n", "given symbols are averaged"),
    Mutation("expectation/stein", "inner = multiply_scalars(scalars, inner) if scalars else inner\n", "inner = scalars or inner\n", "powers of 1/N do not add up along the recursion"),
    Mutation("expectation/stein", "result.get(term, 0) + number * value", "result.get(term, 0) + value", "multiplicities are dropped"),
    Mutation("expectation/stein", "tuple(sorted(closed + constant)) if constant else closed", "closed", "constant factors are dropped"),
    Mutation("expectation/stein", "w1 + (w2 or ())), n1 * n2)\n", "w1 + (w2 or ())), n1)\n", "numbers in a covariance are dropped"),
    Mutation("expectation/stein", "accumulate(longer, (multiply_scalars(s1, s2), multiply_traces(t1, t2), w1 + (w2 or ())), n1 * n2)", "longer[multiply_scalars(s1, s2), multiply_traces(t1, t2), w1 + (w2 or ())] = n1 * n2", "equal terms of a product of two sums are lost"),
    Mutation("expectation/stein", "return trace_terms(product, shapes[0][0] if shapes else self.size)", "return trace_terms(product, 1)", "the trace of an empty product is 1"),
    Mutation("expectation/stein", "return [words.transpose(rest) if code & 1 else rest for code, rest in found]", "return [rest for code, rest in found]", "what is struck from a transposed letter is not turned"),
    Mutation("expectation/stein", "        yield ONE, [[law.mean, rest], *unchanged]\n", "", "the mean is ignored"),
    Mutation("expectation/stein", "yield ONE, [[law.columns, before], [law.covariance, after], *unchanged]", "pass", "x' A x does not meet itself"),
    Mutation("expectation/stein", "[[law.columns, before, law.covariance, words.transpose(after)], *unchanged]", "[[law.columns, before, law.covariance, after], *unchanged]", "X A X meets itself untransposed"),
    Mutation("expectation/stein", "            for other_rest in self._rests(other):\n", "            for other_rest in self._rests(other)[:1]:\n", "a quadratic form is met at one end only"),
    Mutation("expectation/stein", "joined = [law.covariance, words.transpose(other_rest), law.columns, rest]", "joined = [law.covariance, other_rest, law.columns, rest]", "a row is not turned to a column"),
    Mutation("expectation/stein", "        yield ONE, [[covariance, rest], *unchanged]\n", "", "the mean of the struck factor"),
    Mutation("expectation/stein", "            yield weight, [[covariance, words.transpose(before), s, after], *unchanged]\n", "", "the first winding inside a word is dropped"),
    Mutation("expectation/stein", "            yield weight, [[covariance, words.transpose(before), s, after], *unchanged]\n", "            yield weight, [[covariance, before, s, after], *unchanged]\n", "the first winding is not transposed"),
    Mutation("expectation/stein", "            yield weight, [[covariance, after], [before, s], *unchanged]\n", "", "the trace that splits off is missed"),
    Mutation("expectation/stein", "            yield weight, [[covariance, after], [before, s], *unchanged]\n", "            yield weight, [[covariance, before], [after, s], *unchanged]\n", "the split puts the factors on the wrong sides"),
    Mutation("expectation/stein", "                yield weight, [[covariance, words.transpose(loop), s, rest], *unchanged]\n", "", "one winding between two traces is dropped"),
    Mutation("expectation/stein", "                yield weight, [[covariance, loop, s, rest], *unchanged]\n", "                yield weight, [[covariance, words.transpose(loop), s, rest], *unchanged]\n", "both windings between two traces are the same"),
    Mutation("expectation/stein", "                loop = after + before\n", "                loop = before + after\n", "a trace is cut open at the wrong place"),
    Mutation("expectation/stein", "self.share = (1 / law.samples).terms", "self.share = (1 / law.samples**2).terms", "1/N^2 for 1/N"),
    Mutation("expectation/stein", "yield self.minus_share, word[: i + 1], word[i:]", "yield self.share, word[: i + 1], word[i:]", "the sign of the derivative of an inverse"),
    Mutation("expectation/stein", "m, result = samples - TracePolynomial(size) - 1, TracePolynomial(0)", "m, result = samples - TracePolynomial(size), TracePolynomial(0)", "N - D for N - D - 1"),
    Mutation("expectation/stein", "factor = N - D - 1 - pole\n", "factor = N - D - pole\n", "N - D for N - D - 1 in the factors below"),
    Mutation("expectation/powers", "    return [2 * column - row for row", "    return [column - row for row", "the contents of unitary, not orthogonal matrices"),
    Mutation("expectation/powers", "yield 0, 2 * m * times, (k - 1 + m", "yield 0, m * times, (k - 1 + m", "one winding with each trace"),
    Mutation("expectation/powers", "yield 1, k - 1, (k - 1, mu)  #", "yield 1, k, (k - 1, mu)  #", "one winding too many within a power"),
    Mutation("expectation/pairings", "(words.transpose(other), ends[0])", "(other, ends[0])", "a strand joined by its far end is not turned"),
    Mutation("expectation/stein", "samples, least = self.law.samples, self.size + 2 * k - 1\n", "samples, least = self.law.samples, self.size + k - 1\n", "the condition of an inverse is too weak"),
    Mutation("expectation/stein", "        yield (1 - share).terms, independent\n", "        yield ONE, independent\n", "pairs of equal tokens are counted as independent"),
    Mutation("expectation/stein", "        yield share.terms, [[joint, outer]]\n", "        yield ONE, [[joint, outer]]\n", "1/N of the fourth moments"),
    Mutation("expectation/stein", "independent = [[law.covariance, inner], [law.covariance, outer]]", "independent = [[law.covariance, inner, law.covariance, outer]]", "two traces of fourth moments are joined"),
    Mutation("expectation/stein", "if len(found) > 2 or any", "if len(found) > 3 or any", "third order is let through with a fourth-moment map"),
    # Calculus
    Mutation("calculus/derivatives", "        rest = (code, *rest, code)  # d tr(W^-1 P)", "        rest = (code, *rest)  # d tr(W^-1 P)", "the derivative of an inverse has one inverse only"),
    Mutation("calculus/derivatives", "    return -matrix if words.is_inverse(code) else matrix\n", "    return matrix\n", "the sign of the derivative of an inverse"),
    Mutation("calculus/derivatives", "    if not words.is_transposed(code):\n        matrix = matrix.T\n", "", "the gradient is transposed"),
    Mutation("calculus/derivatives", "_cyclic_derivative(code, closed[j + 1 :] + closed[:j], symbol.shape)", "_cyclic_derivative(code, closed[:j] + closed[j + 1 :], symbol.shape)", "an occurrence is turned to the wrong place"),
    Mutation("calculus/derivatives", "traces[:i] + traces[i + 1 :], None): number}, None)", "traces[i + 1 :], None): number}, None)", "the product rule drops the traces before"),
    Mutation("calculus/derivatives", "        return (result + result.T) / 2\n", "        return result + result.T\n", "the symmetric gradient is twice too large"),
    Mutation("calculus/derivatives", "        return (result + result.T) / 2\n", "        return result\n", "the symmetric gradient is not symmetric"),
    Mutation("calculus/derivatives", "sympy.diff(coefficient_of(coefficient), symbol)", "coefficient_of(coefficient) / symbol", "the power rule without its factor"),
    Mutation("calculus/derivatives", "        slopes.append((slope.T * direction).trace())\n", "        slopes.append((slope * direction).trace())\n", "the derivative contracts with the wrong transpose"),
    Mutation("calculus/derivatives", "    return derivative(derivative(scalar, directions), directions)", "    return derivative(derivative(scalar, directions), directions) / 2", "the Hessian form is halved"),
    Mutation("calculus/substitution", "            value = value.T if words.is_transposed(code) else value\n", "", "a transposed symbol is replaced untransposed"),
    Mutation("calculus/substitution", "                value = _reciprocal(value, words.symbol_of(code))\n", "                pass\n", "an inverted symbol is replaced uninverted"),
    Mutation("calculus/substitution", "result = result * TracePolynomial(base) ** exponent", "result = result * TracePolynomial(base)", "powers of a replaced scalar"),
    Mutation("calculus/substitution", "scalars.items()}, simultaneous=True)", "scalars.items()}, simultaneous=False)", "scalars in a denominator are replaced one after the other"),
    Mutation("calculus/substitution", "            matrices[words.letter(symbol) >> 2] = value\n", "            matrices[words.letter(symbol) >> 2] = value.T\n", "replacements are transposed"),
    Mutation("calculus/entrywise", "        matrix = matrix.T if words.is_transposed(code) else matrix\n", "", "explicit entries of a transpose"),
    Mutation("calculus/entrywise", "if scalar.has(sympy.zoo, sympy.nan):", "if False:", "a denominator of zero is an entry"),
    Mutation("calculus/entrywise", "plain[min(i, j), max(i, j)] if symmetric", "plain[i, j] if symmetric", "explicit symmetric matrices are not symmetric"),
    Mutation("calculus/entrywise", "            scalar = scalar * multiply(closed[cut:] + closed[:cut]).trace()", "            scalar = scalar + multiply(closed[cut:] + closed[:cut]).trace()", "explicit traces are added"),
    Mutation("calculus/substitution", "exponent = next((e for g, e in scalars if scalar_of(g) == by), 0)", "exponent = next((abs(e) for g, e in scalars if scalar_of(g) == by), 0)", "collect takes 1/N for N"),
    # Printing
    Mutation("algebra/printing", "    sign = \"-\" if number < 0 else \"\"\n", "    sign = \"\"\n", "signs are not printed"),
    Mutation("algebra/printing", "    return inner if count == 1 else style.power(inner, count)\n", "    return inner\n", "powers of traces are not printed"),
    Mutation("algebra/printing", "            name = style.transposed(name)\n", "            pass\n", "transposes are not printed"),
    Mutation("algebra/printing", "            name = style.power(name, -count)\n", "            name = style.power(name, count)\n", "inverses are printed as powers"),
    Mutation("algebra/printing", "        bottom.insert(0, str(number.denominator))\n", "        pass\n", "denominators are not printed"),
    Mutation("algebra/printing", " and below.endswith(r\"\\right)\")", "", "LaTeX loses a bracket of a squared denominator"),
]  # fmt: skip


def source(module: str) -> str:
    return (ROOT / "theory" / f"{module}.py").read_text(encoding="utf-8")


def misplaced() -> list[Mutation]:
    """Mutations whose text does not occur exactly once, or that change nothing."""
    return [m for m in MUTATIONS if source(m.module).count(m.old) != 1 or m.old == m.new]


class FirstFailure:
    """A pytest plugin that remembers what failed first."""

    name = ""

    def pytest_runtest_logreport(self, report):
        if report.failed and not self.name:
            self.name = report.nodeid

    pytest_collectreport = pytest_runtest_logreport


def outcome(mutation: Mutation | None) -> tuple[Mutation | None, str, float]:
    """'survived' if the tests pass, else the first test that failed; None stands for the engine as it is. Runs in a process of its own."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        package = Path(folder) / "iclflow" / "theory"
        shutil.copytree(ROOT / "theory", package, ignore=shutil.ignore_patterns("__pycache__"))
        if mutation:
            text = source(mutation.module).replace(mutation.old, mutation.new)
            (package / f"{mutation.module}.py").write_text(text, encoding="utf-8")
        shutil.copytree(ROOT / "tests" / "theory", Path(folder) / "tests", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        os.chdir(folder)
        sys.path.insert(0, folder)
        sys.dont_write_bytecode = True
        first = FirstFailure()
        options = [
            "-W",
            "ignore::pytest.PytestAssertRewriteWarning",
            "-x",
            "-q",
            "--tb=no",
            "-p",
            "no:cacheprovider",
            "--hypothesis-profile=no-shrinking",
        ]
        output, code = io.StringIO(), 0
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            nearest = "{}/test_{}".format(*mutation.module.split("/")) if mutation else ""
            # one after the other: most faults need no more than the first
            for name in sorted(TESTS, key=lambda name: name != nearest):
                code = code or pytest.main([*options, f"tests/{name}.py"], plugins=[first])
        imported = sys.modules.get("iclflow.theory.algebra.words")
        if imported and not str(imported.__file__).startswith(folder):
            raise RuntimeError(f"the copy in {folder} is not the one imported: {imported.__file__}")
        if code and not first.name:
            raise RuntimeError(output.getvalue()[-2000:])
        os.chdir(ROOT)
    return mutation, "survived" if code == 0 else first.name.removeprefix("tests/"), time.perf_counter() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="mutants tested at a time")
    parser.add_argument("--only", default="", help="only mutations whose description or module contains this text")
    arguments = parser.parse_args()
    if wrong := misplaced():
        print("These texts do not occur exactly once:", *(f"{m.module}: {m.old!r}" for m in wrong), sep="\n  ")
        return 2
    chosen = [m for m in MUTATIONS if arguments.only in f"{m.module}: {m.breaks}"]
    started = time.perf_counter()
    survivors = []
    # each mutant in a fresh fork of this process, which has loaded what the tests import, but not the engine
    with multiprocessing.get_context("fork").Pool(arguments.jobs, maxtasksperchild=1) as pool:
        queue = chosen if arguments.only else [None, *chosen]
        for mutation, noticed, seconds in pool.imap_unordered(outcome, queue):
            if mutation is None:
                print(f"The engine as it is: {noticed}, {seconds:.0f} s", flush=True)
                if noticed != "survived":
                    return 2
                continue
            print(f"{mutation.module:14} {mutation.breaks:78} {noticed}  {seconds:.0f} s", flush=True)
            if noticed == "survived":
                survivors.append(mutation)
    minutes = (time.perf_counter() - started) / 60
    print(f"\ncaught {len(chosen) - len(survivors)} of {len(chosen)} planted faults in {minutes:.1f} minutes")
    for mutation in survivors:
        print(f"SURVIVED {mutation.module}: {mutation.breaks}\n    {mutation.old!r}\n -> {mutation.new!r}")
    return 1 if survivors else 0


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    for package in ("sympy", "numpy", "torch", "hypothesis.strategies"):  # loaded once, for every fork
        importlib.import_module(package)
    sys.exit(main())
