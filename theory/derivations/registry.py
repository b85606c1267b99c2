"""An entry of the registry, and the two verbs that register one.

An equation's ``statement`` is the paper's side, typed once; its derivation computes the other side from definitions and never looks at
the statement. ``holds()`` is exact zero of the difference.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, wraps
from graphlib import TopologicalSorter
from inspect import signature
from re import findall
from typing import Any, Literal

from sympy import Basic, SympifyError, preorder_traversal
from sympy.matrices.expressions import MatrixSymbol

from ..algebra.letters import Letters, letters
from ..calculus.equality import equal
from ..calculus.spectral import eigenvalue
from ..expectation.laws import PAPER_LAWS
from ..notation import Lambda, Lambda_hat, Lambda_q, N, T, lambda_, lambda_after, lambda_next, w
from ..typesetting.sentences import sentence_text
from .book import entries, load, lookup
from .conditions import Condition, conditions_of
from .derivation import Derivation, formulas, side_latex, side_text
from .documents import render
from .heads import Expectation
from .judging.needed import needed
from .judging.trial import Verdict
from .lines import Line
from .points import Point

Kind = Literal["definition", "exact", "limit", "approximation", "ansatz"]
KINDS = ("definition", "exact", "limit", "approximation", "ansatz")


@dataclass(frozen=True)
class Equation:
    """One statement of the paper, or of this project beside it.

    ``number``: the paper's, or that of a condition, a theorem or an appendix (M, S, C1, T1, C.1, ...).
    ``kind``: definition, exact, limit, approximation or ansatz.
    ``section``: where the paper has it. ``left``: what a definition defines, or {part: ...}. ``typed``: gives the paper's right side,
    or {part: right side}; both may be functions of the task. ``conditions``: what it assumes. ``notes``: how to read it, and what is argued
    or measured but not derived. ``erratum``: what is wrong, unclear or weaker than it could be in the paper.
    """

    number: str
    title: str
    kind: Kind
    section: str
    left: Any
    typed: Callable[..., Any]
    conditions: tuple[Condition, ...] = ()
    erratum: str | None = None
    derivation: Callable[..., Derivation] | None = None
    given: tuple = ()  # the conditions, some of them functions of the task
    notes: tuple[str, ...] = ()

    def __float__(self):
        """What SymPy's functions ask for."""
        raise SympifyError(f"({self.number}) is an entry with several formulas: take equation({self.number!r}).statement")

    @cached_property
    def statement(self) -> Any:
        """The paper's right side, or {part: right side}."""
        return self.typed()

    @property
    def parts(self) -> Mapping[str, Any]:
        return _parts(self.statement)

    def part(self, name: str | None = None) -> Any:
        """The part of the statement with this name, or the statement of an equation without parts. KeyError names the parts."""
        parts = self.parts
        if (name or "") in parts:
            return parts[name or ""]
        if name is None:
            raise KeyError(f"equation ({self.number}) has the parts {', '.join(parts)}; ask for one of them")
        known = "no parts" if "" in parts else f"the parts {', '.join(parts)}"
        raise KeyError(f"equation ({self.number}) has {known}, got {name!r}")

    @property
    def letters(self) -> Letters:
        """{printed name: symbol} of the right sides of all parts."""
        return letters(self.parts)

    @property
    def lefts(self) -> Mapping[str, str]:
        """The left side of each part as LaTeX."""
        return {line.part: side_latex(line.left) for line in self.stated()}

    @property
    def takes_task(self) -> bool:
        """Does the derivation, or what a definition defines, rest on the moments of the task?"""
        return bool(signature(self.derivation or self.typed).parameters)

    @cached_property
    def names_no_law(self) -> bool:
        """Does neither a line nor an entry that it names rest on a law of the data? Then it holds for every task."""
        named = rests_on(self.number, lambda number: [one for one, how in lookup(number).uses.items() if how != "letter"])
        lines = (line for entry in map(lookup, named) if not entry.takes_task for line in entry.lines)
        return not any(rests_on_law(side) for line in lines for side in (line.left, line.right))

    def derive(self, *, full: bool = False, task: Any = None) -> Derivation:
        """Compute the equation from the definitions, line by line. ValueError for a definition, which has nothing to derive.

        ``full``: the lines of all entries that it rests on come first, each entry after those that it uses. ``task``: another task than
        the paper's, a :class:`~iclflow.theory.results.task.population.Task` or what has a method ``symbolic`` that gives one. Its moments
        take the place of the paper's, and each line is judged again: ValueError names the first that fails.
        """
        if full and task is not None:
            raise ValueError("full: the derivations that an equation rests on are those of the paper's task; leave out full or task")
        if task is not None:
            return self._derive_at(task.symbolic() if hasattr(task, "symbolic") else task)
        if self.derivation is None:
            raise ValueError(f"equation ({self.number}) is a definition: {self.title}; there is nothing to derive")
        if full:
            entries = tuple(lookup(number) for number in rests_on(self.number))
            return Derivation(tuple(line for entry in entries for line in entry.lines), entries)
        return self._derived

    @cached_property
    def _derived(self) -> Derivation:
        assert self.derivation is not None  # as ``derive`` makes sure
        return self.derivation().under(self.conditions)

    def _derive_at(self, task: Any) -> Derivation:
        if not hasattr(task, "moments"):
            raise TypeError(f"derive: task must be a Task, got {task!r}")
        if self.names_no_law and not self.takes_task:
            return self.derive() if self.derivation else Derivation.by(*self._defined())
        if not self.takes_task:
            raise ValueError(self._only_for_papers_task(task))
        conditions = conditions_of(self.given, task)
        of_task = self.derivation
        derivation = Derivation.by(*task.commutes(), *self._defined(task)) if of_task is None else of_task(task)
        derivation = derivation.under(conditions)
        for i, line in enumerate(derivation.lines, 1):
            if not (verdict := line.verify()):
                raise ValueError(self._breaks(task, i, line, verdict))
        return derivation

    def _breaks(self, task: Any, place: int, line: Line, verdict: Verdict) -> str:
        why = f"no longer holds ({sentence_text(line.reason)}); it fails {verdict.method}"
        return f"equation ({self.number}) breaks for {task}: line {place}, {_formula(line)}, {why}"

    def _only_for_papers_task(self, task: Any) -> str:
        """Which line of a derivation that takes no task breaks: the first that fails with the task's laws in its expectations, if there is
        one that needs no other entry, else the first that holds a letter or an expectation that the laws of the paper's data set."""
        moved = Derivation.by(*(replace(one, left=_under(one.left, task), right=_under(one.right, task)) for one in self.lines)).lines
        for i, (line, there) in enumerate(zip(self.lines, moved, strict=True), 1):
            own = there != line and not any(isinstance(use, str) for use in line.uses)
            if own and not (verdict := there.verify()):
                return self._breaks(task, i, line, verdict)
        resting = (one for one in enumerate(self.lines, 1) if rests_on_law(one[1].left) or rests_on_law(one[1].right))
        i, line = next(resting, (1, self.lines[0]))
        why = f"line {i}, {_formula(line)}, rests on the laws of its data ({sentence_text(line.reason)})"
        return f"equation ({self.number}) is derived for the paper's task only, not from the moments of {task}: {why}"

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """The lines of the derivation; of a definition, what it states."""
        return self.stated() if self.derivation is None else self.derive().lines

    def stated(self) -> tuple[Line, ...]:
        """What the entry states, as lines that others may use: its parts, and the letters that its derivation defines."""
        return self._stated

    def _defined(self, *task: Any) -> tuple[Line, ...]:
        lefts = _parts(self.left(*task) if callable(self.left) else self.left)
        relation = ":=" if self.kind == "definition" else "="
        return tuple(
            Line(lefts[part], relation, right, self.title, part=part, conditions=self.conditions)
            for part, right in _parts(self.typed(*task)).items()
            if part in lefts
        )

    @cached_property
    def _stated(self) -> tuple[Line, ...]:
        if self.derivation is None:
            return self._defined()
        lines = self.lines
        parts = any(line.part for line in lines)
        return tuple(
            line for i, line in enumerate(lines) if line.relation == ":=" or bool(line.part) or (not parts and i == len(lines) - 1)
        )

    def needed(self, *, seed: int = 0) -> tuple[tuple[Condition, bool | None, Point | None], ...]:
        """(condition, whether it is needed, where it is) for each condition of the lines, and of the entry.

        Needed: a line fails, or has no value, at the point, where the condition alone does not hold. False if no such point was found,
        None for a sentence that no point can test.
        """
        return needed(self.lines, seed) or tuple((one, None if one.test is None else False, None) for one in self.conditions)

    def holds(self) -> bool:
        """Is the computed side minus the typed side exactly zero? True of a definition."""
        return self.derivation is None or equal(dict(self.derive().parts), dict(self.parts))

    @property
    def uses(self) -> dict[str, str]:
        """{number: how} of the entries that this one uses: a "line" says so, a "reason" cites it, or it is where a "letter" comes from."""
        known, lines = load(), self.lines
        found = dict.fromkeys((use for line in lines for use in line.uses if isinstance(use, str)), "line")
        for line in lines if self.derivation is not None else ():
            for cited in findall(r"\(([\w.-]+)\)", line.reason):
                number = cited if cited in known else cited.rstrip("abcdefgh")
                if number in known:
                    found.setdefault(number, "reason")
        for letter in letters([formula for line in lines for side in (line.left, line.right) for formula in formulas(side)]).symbols:
            if letter in (sources := introduced()):
                found.setdefault(sources[letter], "letter")
        return {number: found[number] for number in sorted(found) if number != self.number}

    def __str__(self) -> str:
        return render(self)

    def _repr_markdown_(self) -> str:
        return render(self, "markdown")


def _formula(line: Line) -> str:
    return f"{side_text(line.left)} {line.relation} {side_text(line.right)}"


def _under(side: Any, task: Any) -> Any:
    """A side of a line, with the laws of a task in its expectations under the paper's."""
    if isinstance(side, tuple):
        return tuple(_under(one, task) for one in side)
    if isinstance(side, Line):
        return replace(side, left=_under(side.left, task), right=_under(side.right, task))
    heads = [one for one in preorder_traversal(side) if isinstance(one, Expectation)] if isinstance(side, Basic) else []
    return side.xreplace({one: task.E(one.args[0], given=tuple(one.given)) for one in heads if not one.args[1].value}) if heads else side


class Parts(Mapping[str, Any]):
    """{part: right side}, each written when it is first asked for."""

    def __init__(self, typed: Mapping[str, Callable[[], Any]]):
        self.typed, self.written = typed, {}

    def __getitem__(self, part: str) -> Any:
        if part not in self.written:
            self.written[part] = self.typed[part]()
        return self.written[part]

    def __contains__(self, part: object) -> bool:
        return part in self.typed

    def __iter__(self) -> Iterator[str]:
        return iter(self.typed)

    def __len__(self) -> int:
        return len(self.typed)

    def __or__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return {**self, **other}

    def __repr__(self) -> str:
        return repr(dict(self))


def _parts(statement: Any) -> Mapping[str, Any]:
    return statement if isinstance(statement, Mapping) else {"": statement}


@cache
def introduced() -> dict[Any, str]:
    """{matrix or vector: number} of the first definition in Section 2 or Appendix B.1 on whose left side it stands."""
    sources: dict[Any, str] = {}
    for entry in load().values():
        if entry.kind == "definition" and entry.section.startswith(("Section 2", "Appendix B.1")):
            for letter in letters([formula for line in entry.stated() for formula in formulas(line.left)]).symbols:
                if isinstance(letter, MatrixSymbol):
                    sources.setdefault(letter, entry.number)
    return sources


def rests_on(number: str, uses: Callable[[str], Iterable[str]] = lambda number: lookup(number).uses) -> tuple[str, ...]:
    """The entry and all that it uses, directly or not, each after those that it uses itself. CycleError names a circle."""
    graph: dict[str, tuple[str, ...]] = {}
    waiting = [number]
    while waiting:
        if (one := waiting.pop()) not in graph:
            graph[one] = tuple(uses(one))
            waiting += reversed(graph[one])
    return tuple(TopologicalSorter(graph).static_order())


LETTERS_OF_LAWS = {Lambda, Lambda_hat, Lambda_q, w, N, T, lambda_, lambda_next, lambda_after, eigenvalue}


def rests_on_law(side: Any) -> bool:
    """Does a side of a line hold a letter that the laws of the paper's data set, or an expectation under them?"""
    heads = (head for one in formulas(side) if isinstance(one, Basic) for head in preorder_traversal(one))
    averaged = {letter for head in heads if isinstance(head, Expectation) for letter in head.lawless}
    drawn = {law.symbol for law in PAPER_LAWS} | LETTERS_OF_LAWS
    return not drawn.isdisjoint(averaged) or not LETTERS_OF_LAWS.isdisjoint(letters(formulas(side)).symbols)


def _add(entry: Equation) -> None:
    if entry.number in entries:
        raise ValueError(f"equation ({entry.number}) is registered twice")
    if entry.kind not in KINDS:
        raise ValueError(f"equation ({entry.number}): kind must be one of {KINDS}, got {entry.kind!r}")
    entries[entry.number] = entry


def define(number: str, title: str, *, section: str, left, typed: Callable[..., Any], conditions=(), notes=(), erratum=None) -> None:
    """Register a definition."""
    given = tuple(conditions)
    _add(Equation(number, title, "definition", section, left, typed, conditions_of(given), erratum, None, given, tuple(notes)))


def register(
    number: str, title: str, *, kind: Kind = "exact", section: str = "beyond the paper"
) -> Callable[[Callable[..., Iterable[Line]]], Callable[..., Derivation]]:
    """Register the decorated function, which gives the lines of a derivation; called at most once for a task, if it takes one.

    Decorators below this one say the rest of the entry: ``states``, once or for each of its parts, ``given``, ``note`` and ``erratum``.
    """

    def decorate(function: Callable[..., Iterable[Line]]) -> Callable[..., Derivation]:
        said = SAID.pop(function, {})
        parts = {"".join(key[1:]): typed for key, typed in reversed(said.items()) if key[0] == "states"}
        if not parts or ("" in parts and len(parts) > 1):
            raise ValueError(
                f"equation ({number}): below @register, @states(formula) or several @states(part, formula) must say what it states"
            )

        @cache
        @wraps(function)
        def derivation(*task: Any) -> Derivation:
            return Derivation.by(*function(*task))

        typed = parts.get("") or (lambda: Parts(parts))
        given, notes = (said.get((what,), ()) for what in ("given", "note"))
        _add(Equation(number, title, kind, section, None, typed, conditions_of(given), said.get(("erratum",)), derivation, given, notes))
        return derivation

    return decorate


def states(*stated: Any) -> Callable:
    """Below ``register``: (formula) or (part, formula), a function that gives the paper's right side, or of one part of it, typed once."""
    *part, typed = stated
    return _say(("states", *part), typed)


def given(*conditions: Any) -> Callable:
    """Below ``register``: what the equation assumes: conditions of a point, or sentences about the data or the model, whose laws and shapes
    the lines carry."""
    return _say(("given",), conditions)


def note(*sentences: str) -> Callable:
    """Below ``register``: how to read the equation, such as what a part of it is; and what is argued or measured, not derived."""
    return _say(("note",), sentences)


def erratum(text: str) -> Callable:
    """Below ``register``: what is wrong, unclear or weaker than it could be in the paper."""
    return _say(("erratum",), text)


SAID: dict[Callable, dict[tuple[str, ...], Any]] = defaultdict(dict)  # of the functions that are not registered yet


def _say(what: tuple[str, ...], said: Any) -> Callable:
    def decorate(function: Callable) -> Callable:
        if what in SAID[function] or hasattr(function, "cache_info"):
            raise ValueError(f"{function.__name__}: @{' '.join(what)} stands once, below @register")
        SAID[function][what] = said
        return function

    return decorate
