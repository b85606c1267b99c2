"""Integration by parts (Stein's lemma): the expectation of a product of traces under one law, one random letter at a time.

For a sample covariance S = (1/N) sum_n x_n x_n' of x_n ~ N(0, Lambda), integration by parts on one factor of one S gives

    E[S_ij f(S)] = Lambda_ij E[f] + (1/N) sum_ab E[(Lambda_ia S_bj + Lambda_ib S_aj) df/dS_ab],

so the struck S is replaced by Lambda, or joined with each other S in two windings of weight 1/N. Each step leaves one S fewer. Results
are stored by canonical term, which makes high powers cheap: a term is computed once, however many pairings lead to it.
For a Gaussian vector x ~ N(m, C) the step is E[x f(x)] = m E[f] + C E[grad f], for a matrix likewise.
"""

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property
from itertools import chain

from sympy import Rational, sympify

from ..algebra import words
from ..algebra.coefficients import exact, generator, multiply_scalars
from ..algebra.polynomial import TracePolynomial, polynomial_of_word
from ..algebra.terms import Terms, accumulate, multiply_terms, multiply_traces, trace_of_word, trace_terms
from .laws import Gaussian, SampleCovariance
from .pairings import pairings, strands
from .powers import inverse_row, over_common_poles, partitions, weingarten, wishart_power

ONE: Terms = {((), (), None): 1}
MAX_INVERSES = 5  # beside constants: 945 pairings
DIGIT, MAX_COUNTED = 60, 16  # bits: more than those of 31!!, the number of pairings of 16 S
MAX_POWER = 20  # of a recursion that holds all partitions
MAX_DEGREE = 7  # up to which pairings are enumerated where no S stand side by side


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

    def expectation(self, terms: Terms) -> Terms:
        """The expectation of a sum of products of closed words, each by the way that is shortest for it."""
        for random in {self._random(traces) for _, traces, _ in terms} - self._memo.keys():
            if random and (found := self._directly(random)) is not None:
                self._memo[random] = found
        return self.average(terms)

    def _directly(self, traces) -> Terms | None:
        """The expectation of a product of random traces without recursion, if there is a shorter way."""

    def _random(self, traces) -> tuple[words.Word, ...]:
        return tuple([one for one in traces if self.code in (code & ~3 for code in one)])

    def average(self, terms: Terms) -> Terms:
        """The same by recursion."""
        result: Terms = {}
        for (scalars, traces, _), number in terms.items():
            random = self._random(traces)
            expectation = self._memo.get(random) if random else ONE
            if expectation is None:
                expectation = self._memo[random] = self.average(self._after_one_step(random))
            constant = () if len(random) == len(traces) else tuple([one for one in traces if one not in random])
            for (inner, closed, _), value in expectation.items():  # the innermost loop: nothing is called that can be left out
                inner = multiply_scalars(scalars, inner) if scalars else inner
                term = inner, tuple(sorted(closed + constant)) if constant else closed, None
                result[term] = result.get(term, 0) + number * value
        return {term: number for term, number in result.items() if number}

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
        """The trace of a product of words and polynomials; one word alone is a trace that stays as it was."""
        if len(ingredients) == 1 and type(ingredients[0]) is tuple:
            return {((), (ingredients[0],), None): 1}
        if all(type(one) is tuple for one in ingredients):
            word = tuple(chain.from_iterable(ingredients))
            return trace_of_word(word) if word else trace_terms({((), (), ()): 1}, self.size)
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

    def __init__(self, law, share: Terms | None = None):
        super().__init__(law)
        self._powers: dict[int, Terms] = {}
        letters = [word for _, _, word in law.covariance.terms]
        single = len(letters) == 1 and law.covariance == polynomial_of_word(letters[0] or (), law.covariance.shape)
        self._covariance = letters[0] if single else law.covariance  # one product of letters, if it is that
        self.share = (1 / law.samples).terms if share is None else share
        self.minus_share = {term: -number for term, number in self.share.items()}
        self.inverse_code = self.code ^ 2

    def step(self, traces):
        index, at = self._strike(traces)
        if index is None:
            yield from self._inverse(traces)
            return
        struck, others = traces[index], traces[:index] + traces[index + 1 :]
        rest = struck[at + 1 :] + struck[:at]  # the struck word is tr(S rest)
        covariance, s = self._covariance, (self.code,)
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
        """Products of inverses, for N > D + 2k - 1 if there are k of them: E[S^-1] = N / (N - D - 1) C^-1."""
        k = sum(one.count(self.inverse_code) for one in traces)
        self._require(k)
        if k > MAX_INVERSES:
            raise ValueError(
                f"expect: a term has {k} inverses of {self.law.symbol} beside constants; at most {MAX_INVERSES} are integrated"
            )
        joint, factor = self._joint(self.law.covariance.reciprocal(), k)
        weights, shapes = list(zip(*weingarten(k), strict=True)), partitions(k)
        sums: dict = {}
        for (cycles, closed, identities), count in pairings(strands(traces, self.inverse_code), joint).items():
            sums.setdefault((closed, identities), Counter())[cycles] += count
        for (closed, identities), counts in sums.items():
            chosen = [(count, weights[shapes.index(cycles[::-1])]) for cycles, count in counts.items()]
            numbers = tuple(sum(count * weight[i] for count, weight in chosen) for i in range(len(shapes)))
            coefficient = multiply_terms(self._identities(self._resolved(k, numbers), identities), factor)
            yield {(scalars, closed, None): number for (scalars, _, _), number in coefficient.items()}, []

    def _require(self, k: int) -> None:
        samples, least = self.law.samples, self.size + 2 * k - 1
        condition = samples.to_sympy() > least
        if condition == False:  # noqa: E712  (SymPy's own false)
            power, bound = f"^-{k}" if k > 1 else "^-1", f"samples > size + {2 * k - 1}"
            raise ValueError(
                f"expect: {self.law.symbol}{power} has an expectation for {bound} only, got {samples} samples of size {self.size}"
            )
        self.conditions |= frozenset() if condition == True else frozenset({condition})  # noqa: E712

    def _joint(self, covariance: TracePolynomial, k: int) -> tuple[words.Word, Terms]:
        """The letters of a covariance that is one product, and its coefficient to the power k."""
        (((scalars, _, word), number),) = covariance.terms.items()
        return word, {(tuple((base, k * exponent) for base, exponent in scalars), (), None): number**k}

    def _identities(self, coefficient: Terms, count: int) -> Terms:
        """The coefficient times tr(I) for each identity."""
        return multiply_terms(coefficient, (TracePolynomial(self.size) ** count).terms) if count else coefficient

    @cached_property
    def _counting(self) -> "WishartMoments":
        """The same with 2^DIGIT for 1/N: an integer then holds the coefficients of all its powers, which are sums of 1."""
        return WishartMoments(self.law, {((), (), None): 1 << DIGIT})

    def _directly(self, traces):
        joint, inverses = self._covariance, any(self.inverse_code in one for one in traces)
        if not (type(joint) is tuple and len(joint) == 1):
            return None
        code = self.inverse_code if inverses else self.code
        pure = tuple(sorted((len(one) for one in traces if set(one) == {code}), reverse=True))
        mixed = [one for one in traces if set(one) != {code}]
        places = [[i for i, one in enumerate(word) if one & ~1 == code & ~1] for word in mixed]
        degree = sum(map(len, places)) + sum(pure)
        if degree < 2 or any(code ^ 2 in one for one in traces):
            return None
        neighbours = sum(word[i] == word[i - 1] for word, at in zip(mixed, places, strict=True) for i in at)
        run = len(mixed) == 1 and neighbours == len(places[0]) - 1
        if inverses:
            return self._inverse_power(mixed, pure) if (run and not pure) or (not mixed and len(pure) == 1) else None
        if (run or not mixed) and degree <= MAX_POWER:
            return self._power(mixed, pure)
        if degree > MAX_COUNTED or not sympify(self.size).is_Symbol:
            return None
        pieces, result = strands(traces, code), {}
        if degree > MAX_DEGREE or len({word for word, _, _ in pieces}) < len(pieces):  # where parts repeat, recursion is shorter
            for (scalars, closed, _), number in self._counting.average({((), traces, None): 1}).items():
                for power in range(degree):
                    count = number >> DIGIT * power & (1 << DIGIT) - 1
                    for (share, _, _), value in self._share(power).items() if count else ():
                        accumulate(result, (multiply_scalars(scalars, share), closed, None), count * value)
            return result
        for (cycles, closed, identities), count in pairings(pieces, joint).items():
            for (scalars, _, _), share in self._identities(self._share(degree - len(cycles)), identities).items():
                accumulate(result, (scalars, closed, None), count * share)
        return result

    def _share(self, exponent: int) -> Terms:
        """1 / N^exponent."""
        if exponent not in self._powers:
            self._powers[exponent] = ((1 / self.law.samples) ** exponent).terms
        return self._powers[exponent]

    def _of_powers(self, mixed, pieces, letter: int) -> Terms:
        """The sum of pieces (j, nu, coefficient) of tr(rest Lambda^j) p_nu(Lambda) for the constants around a run of S."""
        rest = ()
        for word in mixed:
            start = next(i for i, one in enumerate(word) if one & ~3 != self.code and word[i - 1] & ~3 == self.code)
            turned = word[start:] + word[:start]
            rest = tuple([one for one in turned if one & ~3 != self.code])
        heads: dict[int, Terms] = {0: ONE} if not mixed else {}
        result: Terms = {}
        for j, nu, coefficient in pieces:
            if j not in heads:
                heads[j] = trace_terms({((), (), rest + (letter,) * j): 1}, self.size)
            closed = tuple(sorted([(letter,) * part for part in nu]))
            for (scalars, traces, _), number in multiply_terms(heads[j], coefficient).items():
                accumulate(result, (scalars, multiply_traces(traces, closed), None), number)
        return result

    def _power(self, mixed, pure) -> Terms:
        """E[S^k p_mu]."""
        k = sum(code == self.code for word in mixed for code in word)
        degree = k + sum(pure)
        pieces = []
        for j, nu, numbers in wishart_power(k, pure):
            coefficient: Terms = {}
            for power, number in numbers.items():
                for term, value in self._share(degree - power).items():
                    accumulate(coefficient, term, number * value)
            pieces.append((j, nu, coefficient))
        return self._of_powers(mixed, pieces, self._covariance[0])

    def _inverse_power(self, mixed, pure) -> Terms:
        """E[S^-k] for N > D + 2k - 1, the derivative in Lambda^-1 of its trace."""
        k = pure[0] if pure else sum(code == self.inverse_code for code in mixed[0])
        self._require(k)
        pieces = []
        for nu, numbers in zip(partitions(k), zip(*inverse_row(k), strict=True), strict=True):
            for j in set(nu) if mixed else {0}:
                share = Fraction(j * nu.count(j), k) if mixed else Fraction(1)
                left = nu[: nu.index(j)] + nu[nu.index(j) + 1 :] if mixed else nu
                pieces.append((j, left, self._resolved(k, tuple(share * number for number in numbers))))
        return self._of_powers(mixed, pieces, self._covariance[0] ^ 2)

    def _resolved(self, k: int, numbers: tuple) -> Terms:
        """N^k times the sum over shapes of a number over prod(m - box), with m = N - D - 1, in lowest terms."""
        numerator, poles = over_common_poles(k, numbers)
        samples, size = self.law.samples, sympify(self.size)
        symbol = samples.to_sympy()
        if symbol.is_Symbol and size.is_Symbol and symbol != size:
            return _expanded(k, numerator, poles, symbol, size)
        m, result = samples - TracePolynomial(size) - 1, TracePolynomial(0)
        for number in reversed(numerator):
            result = result * m + TracePolynomial(Rational(number.numerator, number.denominator))
        for pole, times in poles.items():
            result = result / (m - pole) ** times
        return (result * samples**k).terms


def _expanded(k: int, numerator: list, poles: dict, N, D) -> Terms:
    """N^k numerator(m) / prod (m - pole)^times, with m = N - D - 1 multiplied out above and kept as factors below."""
    sign, below = 1, ()
    for pole, times in poles.items():
        factor = N - D - 1 - pole
        if str(N) < str(D):  # as ``rational`` writes it
            factor, sign = -factor, sign * (-1) ** times
        below = multiply_scalars(below, ((generator(factor), -times),))
    sums: Terms = {}
    powers: dict = {(0, 0): 1}  # of m, in N and D
    for number in numerator:
        for (i, j), times in powers.items():
            above = tuple(sorted((base, one) for base, one in ((generator(N), i + k), (generator(D), j)) if one))
            accumulate(sums, (multiply_scalars(above, below), (), None), sign * number * times)
        longer: Counter = Counter()
        for (i, j), times in powers.items():
            for step, change in (((1, 0), 1), ((0, 1), -1), ((0, 0), -1)):
                longer[i + step[0], j + step[1]] += change * times
        powers = longer
    return {term: exact(Fraction(number)) for term, number in sums.items()}


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
