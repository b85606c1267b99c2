"""Integration by parts (Stein's lemma): the expectation of a product of traces under one law, one random letter at a time.

For a sample covariance S = (1/N) sum_n x_n x_n' of x_n ~ N(0, Lambda), integration by parts on one factor of one S gives

    E[S_ij f(S)] = Lambda_ij E[f] + (1/N) sum_ab E[(Lambda_ia S_bj + Lambda_ib S_aj) df/dS_ab],

so the struck S is replaced by Lambda, or joined with each other S in two windings of weight 1/N. Each step leaves one S fewer. Results
are stored by canonical term, which makes high powers cheap: a term is computed once, however many pairings lead to it.
For a Gaussian vector x ~ N(m, C) the step is E[x f(x)] = m E[f] + C E[grad f], for a matrix likewise.
"""

from collections.abc import Iterable

from ..algebra import words
from ..algebra.coefficients import multiply_scalars
from ..algebra.polynomial import TracePolynomial, polynomial_of_word
from ..algebra.terms import Terms, accumulate, multiply_terms, multiply_traces, trace_terms
from .laws import Gaussian, SampleCovariance

ONE: Terms = {((), (), None): 1}


class Moments:
    """The expectation of sums of products of closed words, memoised; a subclass defines one step.

    A matrix-valued term is closed by constant vectors at its ends (see ``close_ends``), so every word is closed here.
    """

    def __init__(self, law):
        self.law = law
        self.code = words.letter(law.symbol)
        self.size = law.symbol.shape[0]
        self.conditions: frozenset = frozenset()
        self._memo: dict[tuple, Terms] = {}

    def average(self, terms: Terms) -> Terms:
        """The expectation of a sum of products of closed words."""
        result: Terms = {}
        for (scalars, traces, _), number in terms.items():
            for (inner, closed, _), value in self._of_product(traces).items():
                accumulate(result, (multiply_scalars(scalars, inner), closed, None), number * value)
        return result

    def _of_product(self, traces: tuple[words.Word, ...]) -> Terms:
        random = tuple([one for one in traces if self.code in (code & ~3 for code in one)])
        if not random:
            return {((), traces, None): 1}
        expectation = self._memo.get(random)
        if expectation is None:
            expectation = self._memo[random] = self.average(self._after_one_step(random))
        constant = [one for one in traces if one not in random]
        if not constant:
            return expectation
        return {(scalars, multiply_traces(closed, constant), None): n for (scalars, closed, _), n in expectation.items()}

    def step(self, traces) -> Iterable[tuple[Terms, list]]:
        """Pieces (coefficient, factors) with E[product of the traces] = sum of coefficient x E[product of the factors].

        Each factor is a list of words and polynomials: the trace of their product.
        """
        raise NotImplementedError

    def _after_one_step(self, traces) -> Terms:
        simpler: Terms = {}  # many pieces are equal; collect them before the next step
        for product, factors in self.step(traces):
            for factor in factors:
                product = multiply_terms(product, self._close(factor))
            for term, number in product.items():
                accumulate(simpler, term, number)
        return simpler

    def _close(self, ingredients) -> Terms:
        """The trace of a product of words and polynomials."""
        product: Terms = {((), (), ()): 1}
        for one in ingredients:
            right = one.terms if isinstance(one, TracePolynomial) else {((), (), one): 1}
            longer: Terms = {}
            for (s1, t1, w1), n1 in product.items():
                for (s2, t2, w2), n2 in right.items():  # w2 is None for a 1 x 1 matrix
                    accumulate(longer, (multiply_scalars(s1, s2), multiply_traces(t1, t2), w1 + (w2 or ())), n1 * n2)
            product = longer
        shapes = [one.shape or (1, 1) for one in ingredients if isinstance(one, TracePolynomial)]
        return trace_terms(product, shapes[0][0] if shapes else self.size)


class GaussianMoments(Moments):
    """E[tr(X F)] = tr(m E[F]) and a term for each other X: with U the covariance and V that of columns, Cov(X_ij, X_kl) = U_ik V_jl."""

    def _rests(self, word) -> list[words.Word]:
        """What remains of a closed word when one X is struck, for each X: the word is tr(X rest)."""
        found = [(code, word[i + 1 :] + word[:i]) for i, code in enumerate(word) if code & ~1 == self.code]
        return [words.transpose(rest) if code & 1 else rest for code, rest in found]

    def step(self, traces):
        law, (struck, *others) = self.law, traces
        rest, unchanged = self._rests(struck)[0], [[other] for other in others]
        yield ONE, [[law.mean, rest], *unchanged]
        for i, code in enumerate(rest):
            before, after = rest[:i], rest[i + 1 :]
            if code == self.code:
                yield ONE, [[law.columns, before, law.covariance, words.transpose(after)], *unchanged]
            elif code == self.code ^ 1:
                yield ONE, [[law.columns, before], [law.covariance, after], *unchanged]
        for i, other in enumerate(others):
            for other_rest in self._rests(other):
                joined = [law.covariance, words.transpose(other_rest), law.columns, rest]
                yield ONE, [joined, *unchanged[:i], *unchanged[i + 1 :]]


class WishartMoments(Moments):
    """The struck S is replaced by the covariance, or joined with another S in two windings of weight 1/N."""

    def __init__(self, law):
        super().__init__(law)
        self.share = (1 / law.samples).terms
        self.minus_share = {term: -number for term, number in self.share.items()}
        self.inverse_code = self.code ^ 2

    def step(self, traces):
        index, at = self._strike(traces)
        if index is None:
            yield from self._inverse(traces)
            return
        struck, others = traces[index], traces[:index] + traces[index + 1 :]
        rest = struck[at + 1 :] + struck[:at]  # the struck word is tr(S rest)
        covariance, s = self.law.covariance, (self.code,)
        unchanged = [[other] for other in others]
        yield ONE, [[covariance, rest], *unchanged]
        for weight, before, after in self._meetings(rest):  # rest = before S after
            yield weight, [[covariance, words.transpose(before), s, after], *unchanged]
            yield weight, [[covariance, after], [before, s], *unchanged]
        for i, other in enumerate(others):
            unchanged = [[one] for one in others[:i] + others[i + 1 :]]
            for weight, before, after in self._meetings(other):  # other = tr(S loop)
                loop = after + before
                yield weight, [[covariance, words.transpose(loop), s, rest], *unchanged]
                yield weight, [[covariance, loop, s, rest], *unchanged]

    def _strike(self, traces) -> tuple[int | None, int]:
        """Choose the S to strike. Any would do; the start of a run, in the word with most other letters, gives few distinct terms."""
        candidates = [i for i, one in enumerate(traces) if self.code in one]
        if not candidates:
            return None, 0
        index = max(candidates, key=lambda i: len(traces[i]) - traces[i].count(self.code))
        word = traces[index]
        runs = [at for at, code in enumerate(word) if code == self.code and word[at - 1] != self.code]
        return index, runs[0] if runs else 0

    def _meetings(self, word):
        """(weight, before, after) for each S in a word, and for each S^-1, whose derivative is -S^-1 dS S^-1."""
        for i, code in enumerate(word):
            if code == self.code:
                yield self.share, word[:i], word[i + 1 :]
            elif code == self.inverse_code:
                yield self.minus_share, word[: i + 1], word[i:]

    def _inverse(self, traces):
        """E[S^-1] = N / (N - D - 1) C^-1, for N > D + 1."""
        if sum(one.count(self.inverse_code) for one in traces) > 1:
            raise ValueError(
                f"expect: a term has more than one inverse of {self.law.symbol}; supported: one inverse beside any powers of it"
            )
        ((word,), samples) = traces, self.law.samples
        at = word.index(self.inverse_code)
        condition = samples.to_sympy() > self.size + 1
        if condition == False:  # noqa: E712  (SymPy's own false)
            raise ValueError(
                f"expect: {self.law.symbol}^-1 has an expectation for samples > size + 1 only, got {samples} samples of size {self.size}"
            )
        self.conditions = frozenset() if condition == True else frozenset({condition})  # noqa: E712
        weight = samples / (samples - TracePolynomial(self.size) - 1)
        yield weight.terms, [[self.law.covariance.reciprocal(), word[at + 1 :] + word[:at]]]


class FourthMoments(Moments):
    """Tokens of any law, up to second order: E[S A S] = (1 - 1/N) C A C + F(A) / N, where F(A) = E[x x' A x x']."""

    def step(self, traces):
        law = self.law
        found = [(i, j) for i, one in enumerate(traces) for j, code in enumerate(one) if code == self.code]
        if len(found) > 2 or any(self.code ^ 2 in one for one in traces):
            raise ValueError(f"expect: with a fourth-moment map, {law.symbol} may occur at most twice in a term, not inverted")
        if len(found) == 1:
            yield ONE, [[law.covariance, self._rest(traces[0], found[0][1])]]
            return
        (i, j), (k, m) = found
        if i == k:  # tr(S inner S outer)
            inner, outer = traces[i][j + 1 : m], traces[i][m + 1 :] + traces[i][:j]
            independent = [[law.covariance, inner, law.covariance, outer]]
        else:  # tr(S inner) tr(S outer)
            inner, outer = self._rest(traces[i], j), self._rest(traces[k], m)
            independent = [[law.covariance, inner], [law.covariance, outer]]
        share = 1 / law.samples
        square = (self.size, self.size)
        joint = TracePolynomial(law.fourth_moment(polynomial_of_word(inner, square)))
        if joint.terms and joint.shape != law.covariance.shape:
            raise ValueError(f"fourth_moment of {law.symbol} must return shape {square}, got {joint} of {joint.shape}")
        yield (1 - share).terms, independent
        yield share.terms, [[joint, outer]]

    @staticmethod
    def _rest(word, at):
        return word[at + 1 :] + word[:at]


def moments_under(law: Gaussian | SampleCovariance) -> Moments:
    """The recursion that integrates the symbol of a law."""
    if isinstance(law, Gaussian):
        return GaussianMoments(law)
    return WishartMoments(law) if law.fourth_moment is None else FourthMoments(law)
