r"""A derivation written down: an expression, then verbs with what they need, each in text or in LaTeX.

>>> force = derive_written("E[(y_q - beta' B x_q)^2]", "expect", r"fold \mathbf M = \mathbb{E}[\hat{\boldsymbol\Lambda}^2]", "gradient B")
>>> print(force.right, [verdict.status for verdict in force.verdicts])
-2 Lambda^2 + 2 M B Lambda ['exact', 'assumed', 'exact', 'exact']
>>> derive_written("S A S", "expect", "claim Lambda A Lambda")  # doctest: +ELLIPSIS
Traceback (most recent call last):
iclflow.theory.proofs.building.FalseLineError: claim: E[Lambda_hat A Lambda_hat] = Lambda A Lambda fails at ...
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from sympy import oo

from ..algebra.parsing import MAX_LENGTH, MAX_TERMS
from ..algebra.syntax import Node, Unreadable, tokens_of
from ..derivations import Line
from ..derivations.derivation import RELATIONS_LATEX, side_latex
from ..derivations.judging.trial import Verdict
from .assumptions import positive_definite, size_of_matrices
from .building import BuiltDerivation, FalseLineError, derive
from .counterexamples import letters_of, sizes_of
from .doubts import SIZES
from .judging import formulas_of
from .latex_tokens import latex_tokens
from .letters import Letters
from .meaning import Meaning, count_terms

MAX_STEPS = 100


@dataclass(frozen=True)
class Played:
    """What a step did: the lines that it added, with their verdicts, or its ``error``; then a line that fails is the only one."""

    step: str
    lines: tuple[Line, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    error: Exception | None = None


def derive_written(start: str, *steps: str, let: Iterable[str] = ()) -> BuiltDerivation:
    """The derivation from an expression by steps such as ``"gradient B"``; ``let`` says what letters are: ``"K: D x R; A: symmetric"``.

    ValueError if a text cannot be read or a verb does not apply; ``FalseLineError``, which is one, names the point where a line fails.
    """
    built, played = play(start, steps, let)
    for one in played:
        if one.error:
            raise one.error
    return built


def play(start: str, steps: Iterable[str], let: Iterable[str] = ()) -> tuple[BuiltDerivation, list[Played]]:
    """The derivation, and what each step did; a step that fails or does not apply is passed over. ValueError if a text cannot be read."""
    written, played = Written(start, steps, let), []
    letters = letters_of(written.start).union(*(letters_of(one) for _, arguments, _ in written.calls for one in arguments))
    begun = written.start, frozenset(sizes_of(letters) - SIZES), frozenset(written.letters.conditions)
    for i, step in enumerate(written.steps):
        _, lines, verdicts, error = _played(*begun, written.calls[: i + 1])
        played.append(Played(step, lines, verdicts, error))
    return _played(*begun, written.calls)[0], played


@lru_cache(maxsize=128)
def _played(start: Any, sizes: frozenset, definite: frozenset, calls: tuple) -> tuple:
    """The derivation after some calls; of the last one its lines and verdicts, or the error that it raised."""
    if not calls:
        conditions = [*map(size_of_matrices, sorted(sizes, key=str)), *map(positive_definite, sorted(definite, key=str))]
        return replace(derive(start), conditions=tuple(conditions)), (), (), None
    built, *_ = _played(start, sizes, definite, calls[:-1])
    verb, arguments, options = calls[-1]
    try:
        longer = getattr(built, verb)(*(dict(one) if isinstance(one, tuple) else one for one in arguments), **dict(options))
    except FalseLineError as problem:
        return built, (problem.line,), (problem.verdict,), problem
    except MemoryError:
        raise
    except Exception as problem:  # whatever SymPy raises, the other steps are still played
        return built, (), (), problem
    return longer, longer.lines[len(built.lines) :], longer.verdicts[len(built.lines) :], None


class Read(NamedTuple):
    """A text as read: formulas (place, sides, relations), the letter that goes to a limit with its target, and an order."""

    text: str
    formulas: list
    approach: Any
    order: Node | None

    @property
    def sides(self) -> list:
        return self.formulas[0][1]

    @property
    def signs(self) -> list[str]:
        return [one.text for one in self.formulas[0][2]]


class Written:
    """A derivation as read: its expression ``start``, its ``calls`` (verb, arguments, options), and the LaTeX ``shown`` of each text."""

    def __init__(self, start: str, steps: Iterable[str], let: Iterable[str] = ()) -> None:
        self.steps = list(steps)
        if not all(isinstance(text, str) for text in (start, *self.steps)):
            raise TypeError(f"a derivation must be given as texts, got {start!r} and {self.steps!r}")
        if len(self.steps) > MAX_STEPS:
            raise ValueError(f"steps: a derivation has at most {MAX_STEPS}, got {len(self.steps)}")
        self.letters = Letters()
        for one in let:
            self.letters.declare(one, latex_tokens if "\\" in one else tokens_of)
        for problem in self.letters.broken.values():
            raise ValueError(problem)
        self.meaning = Meaning(self.letters)
        split = [step.strip().partition(" ") for step in self.steps]
        whole = self._read(start)
        if whole.signs or len(whole.formulas) > 1:
            raise ValueError(f"a derivation starts at one expression without a relation, got {start!r}")
        needed = [self._needed(verb, rest.strip()) for verb, _, rest in split]
        self.letters.settle(tuple(sides) for one in (whole, *needed) if one for _, sides, _ in one.formulas)
        self.meaning.settle()
        self.start = self._meant(start, lambda: self._value(whole.sides[0]))
        self.shown = [side_latex(self.start)]
        self.calls = tuple(self._call(verb, one) for (verb, *_), one in zip(split, needed, strict=True))

    def _read(self, text: str) -> Read:
        if len(text) > MAX_LENGTH:
            raise ValueError(f"an expression has at most {MAX_LENGTH} characters, got {len(text)}")

        def read() -> Read:
            tokens = latex_tokens(text, {name for name, _ in self.letters.declared}) if "\\" in text else tokens_of(text)
            formulas, approach, order, conditions = formulas_of(self.letters.grammar(tokens))
            if conditions:
                raise Unreadable("conditions are not read here", None)
            return Read(text, formulas, approach, order)

        return self._meant(text, read)

    def _needed(self, verb: str, text: str) -> Read | None:
        """What stands behind a verb; what matrices have along an eigenvector are numbers, declared or not."""
        if verb not in VERBS:
            raise ValueError(f"there is no verb {verb!r}; the verbs are {', '.join(VERBS)}")
        needs, _, _, optional = VERBS[verb]
        if (not text and needs and not optional) or (text and not needs):
            raise ValueError(f"{verb}: needs {needs or 'nothing behind it'}")
        read = self._read(text) if text else None
        for _, sides, _ in read.formulas if read and verb == "along_eigenvectors" else ():
            if sides[-1].kind == "name" and not self.letters.is_declared(sides[-1].parts[0]):
                self.letters.declare(f"{sides[-1].parts[0].text}: scalar")
        return read

    def _meant(self, text: str, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except Unreadable as problem:
            place = "" if problem.position is None else f" at character {problem.position + 1}"
            raise ValueError(f"cannot read '{text}'{place}: {problem}") from None

    def _call(self, verb: str, one: Read | None) -> tuple:
        laws, options = tuple(self.meaning.laws.values()), frozenset()
        arguments: Any = self._meant(one.text, lambda: VERBS[verb].read(self, one)) if one else ()
        self.shown.append(self._latex(one) if one else "")
        if verb == "claim":
            *arguments, options = arguments
        elif verb == "expect" and laws:
            options = frozenset({("laws", laws)})
        return verb, tuple(arguments), options

    def _latex(self, one: Read) -> str:
        shown = []
        for _, sides, signs in one.formulas:
            first, *others = (side_latex(self.meaning.of(side)) if side else "" for side in sides)
            shown.append(" ".join([first, *(f"{RELATIONS_LATEX[sign.text]} {side}" for sign, side in zip(signs, others, strict=True))]))
        if one.approach:
            shown.append(rf"{side_latex(self.meaning.letter(one.approach[0]))} \to {side_latex(self.meaning.of(one.approach[1]))}")
        if one.order:
            shown.append(rf"\text{{order }} {side_latex(self.meaning.of(one.order))}")
        return r",\quad ".join(shown)

    # What verbs need

    def _value(self, node: Node) -> Any:
        value = self.meaning.of(node)
        if count_terms(value) > MAX_TERMS:
            raise Unreadable(f"it expands to more than {MAX_TERMS} terms", None)
        return value

    def _letter(self, node: Node | None) -> Any:
        if node is None or node.kind != "name":
            raise Unreadable("a letter was expected", node.position if node else 0)
        return self.meaning.letter(node.parts[0])

    def _variable(self, one: Read) -> tuple:
        if one.signs or len(one.formulas) > 1:
            raise Unreadable("a letter alone was expected")
        return (self._letter(one.sides[0]),)

    def _powers(self, one: Read) -> tuple:
        return ("traces",) if one.text == "traces" else self._variable(one)

    def _values(self, one: Read) -> tuple:
        if any([sign.text for sign in signs] not in (["="], [":="]) for _, _, signs in one.formulas):
            raise Unreadable("values are given as in B = Lambda/2, c = 3")
        return (tuple((self._letter(first), self._value(second)) for _, (first, second), _ in one.formulas),)

    def _motion(self, one: Read) -> tuple:
        return self._values(one) if one.signs else self._variable(one)

    def _part(self, one: Read) -> tuple:
        if len(one.formulas) > 1 or one.signs not in (["="], [":="]) or one.sides[0] is None or one.sides[0].kind != "name":
            raise Unreadable("a letter and what it stands for were expected, as in M = E[S^2]")
        part = self._value(one.sides[1])
        return self.letters.define(one.sides[0].parts[0], part), part

    def _approach(self, one: Read) -> tuple:
        if one.signs not in ([], ["->"]):
            raise Unreadable("a letter and its limit were expected, as in N -> infinity")
        return self._letter(one.sides[0]), self._value(one.sides[1]) if one.signs else oo

    def _series(self, one: Read) -> tuple:
        if one.order is None:
            raise Unreadable("the order is missing, as in N -> infinity, up to order 2", None)
        (letter, target), order = self._approach(one), self._value(one.order)
        return letter, int(order) if order.is_Integer else order, target

    def _range(self, one: Read) -> tuple:
        if len(one.sides) != 3 or not set(one.signs) <= {"<", "<="}:
            raise Unreadable("a range was expected, as in 0 < u < infinity")
        low, variable, high = one.sides
        return self._letter(variable), self._value(low), self._value(high)

    def _claim(self, one: Read) -> tuple:
        """The right side, and the options."""
        if len(one.formulas) > 1 or len(one.sides) > 2 or (one.signs and one.sides[0] is not None):
            raise Unreadable("a claim is a right side, with or without a relation before it, as in <= 2 N")
        (relation,) = one.signs or ["="]
        options: dict[str, Any] = {"relation": relation}
        if relation in (":=", "=>", "<=>"):
            raise Unreadable(f"a claim with {relation} is not read")
        if relation in ("->", "~"):
            if one.approach is None or (one.order is None and relation == "~"):
                raise Unreadable(f"the limit is missing: write (N -> infinity{', up to order 2' * (relation == '~')}) behind it", None)
            letter, target = self.meaning.letter(one.approach[0]), self._value(one.approach[1])
            options["parameter"] = letter if target == oo else (letter, target)
            options |= {} if one.order is None else {"order": self._value(one.order)}
        return self._value(one.sides[-1]), frozenset(options.items())


class Verb(NamedTuple):
    """What a verb ``needs`` behind it, empty if that is nothing, with an example."""

    needs: str = ""
    example: str = ""
    read: Callable[[Written, Read], tuple] = Written._variable
    optional: bool = False


VERBS = {
    "expect": Verb(),
    "gradient": Verb("a letter", "B"),
    "substitute": Verb("values of letters", "B = Lambda/2", Written._values),
    "fold": Verb("a letter and what it stands for", "M = E[S^2]", Written._part),
    "expand": Verb(),
    "factor": Verb(),
    "collect": Verb("a scalar letter, or traces", "N", Written._powers),
    "along_eigenvectors": Verb("eigenvalues of further matrices", "B = b", Written._values, optional=True),
    "solve_for": Verb("a letter", "B"),
    "limit": Verb("a letter and its limit", "N -> infinity", Written._approach),
    "series": Verb("a letter, its limit and an order", "N -> infinity, up to order 2", Written._series),
    "derivative": Verb("a scalar letter, or velocities", "W = -W", Written._motion),
    "hessian": Verb("directions", "B = A", Written._values),
    "integrate": Verb("a range", "0 < u < infinity", Written._range),
    "transpose": Verb(),
    "trace": Verb(),
    "claim": Verb("a right side, with its relation if that is not =", "<= tr(Lambda)", Written._claim),
}
