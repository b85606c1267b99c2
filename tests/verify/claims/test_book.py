"""Every claim holds, and fails when one of its mistakes is planted; what the book refuses."""

import math

import pytest
from iclflow.verify.claims.book import ClaimBook, Mistake, load, planted, wrong
from iclflow.verify.claims.tolerances import EXACT

BOOK = load()
CHECKS = BOOK.select()
# A claim stands beside its mistakes: tests that share a run are given to one process.
CASES = [(check, mistake) for check in CHECKS for mistake in (None, *check.wrong)]


@pytest.mark.parametrize(("check", "mistake"), CASES, ids=[f"{c.name}-{'as it is' if m is None else m}" for c, m in CASES])
def test_claim_holds_and_catches_planted_mistakes(check, mistake):
    claim = check.run(mistake)
    if mistake is None:
        assert claim.error is None
        assert claim.status == "holds", f"({claim.equation}) residual {claim.residual} > {claim.tolerance}"
        assert claim.tolerance_reason
        assert len(claim.name) > 10
        return
    assert claim.status == "fails", f"({claim.equation}) residual {claim.residual} with {mistake}"
    # Caught by measuring, not by an exception, which any nonsense would raise.
    assert claim.error is None or claim.error == "residual is inf"


def test_every_claim_names_a_mistake():
    assert all(check.wrong for check in BOOK.select(full=True))


@pytest.mark.parametrize("residual", [math.nan, math.inf])
def test_what_is_no_number_fails(residual):
    book = ClaimBook()
    book.claim("0", "a claim", method="flow", tolerance=EXACT, theory=residual, wrong={"one": 1.0})(float)
    claim = book.checks["float"].run()
    assert (claim.status, claim.residual, claim.error) == ("fails", None, f"residual is {residual}")


def test_an_exception_fails_the_claim_and_is_told():
    book = ClaimBook()

    @book.claim("0", "a claim", method="flow", tolerance=EXACT, theory=0, wrong={"one": 1})
    def divides(x):
        return 1 / x

    claim = book.checks["divides"].run()
    assert claim.status == "fails"
    assert claim.error is not None
    assert claim.error.startswith("ZeroDivisionError")


def test_a_claim_that_fails_says_why():
    book, asked = ClaimBook(), []
    options = {"method": "flow", "tolerance": EXACT, "theory": 1.0, "wrong": {"one": 2.0}}
    book.claim("0", "a claim", explain=lambda: asked.append(1) or "the step", **options)(abs)
    check = book.checks["abs"]
    assert (check.run().status, check.run().error) == ("fails", "the step")
    assert len(asked) == 2
    assert check.run("one").error is None  # planted: there is nothing to find out

    def cannot():
        raise ArithmeticError("it diverged")

    book.claim("0", "a claim", explain=cannot, **options)(float)
    assert book.checks["float"].run().error == "no explanation: ArithmeticError: it diverged"


def test_an_interrupt_is_not_swallowed():
    book = ClaimBook()

    @book.claim("0", "a claim", method="flow", tolerance=EXACT, theory=0, wrong={"one": 1})
    def interrupted(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        book.checks["interrupted"].run()


def test_the_book_refuses_what_proves_nothing():
    book = ClaimBook()
    options = {"method": "flow", "tolerance": EXACT, "theory": 0}
    with pytest.raises(ValueError, match="wrong must name"):
        book.claim("0", "a claim", **options)(abs)
    with pytest.raises(ValueError, match="statement must be given, or a docstring of <lambda>"):
        book.claim("0", wrong={"a": 1}, **options)(lambda x: x)
    with pytest.raises(ValueError, match="method must be one of"):
        book.claim("0", "a claim", wrong={"a": 1}, **(options | {"method": "guessing"}))
    book.claim("0", "a claim", wrong={"a": 1}, **options)(abs)
    with pytest.raises(ValueError, match="name must be new"):
        book.claim("0", "a claim", wrong={"a": 1}, **options)(abs)


def test_a_docstring_is_the_statement():
    book = ClaimBook()

    @book.claim("0", method="rational", theory=1, wrong={"two": 2})
    def measured(theory):
        """Halves
        add up.

        Told at length.
        """
        return abs(theory - 1)

    assert book.checks["measured"].statement == "Halves add up"


def test_mistakes_are_planted_in_their_part_and_keep_their_order():
    book = ClaimBook()

    def value(change=None):
        return (change or {}).get("x", 1)

    twice = Mistake(lambda function: lambda: 2 * function())

    @book.claim("0", "parts", method="rational", theory={"one": value, "two": value}, wrong={"shared": {"two": lambda: 3}})
    @wrong("twice one", {"one": twice})
    @wrong("a change in two", {"two": {"x": 5}})
    @wrong("a change", {"x": 4})
    def parts(theory):
        return 0

    told = {mistake: tuple(part() for part in side.values()) for mistake, side in book.checks["parts"].wrong.items()}
    assert list(told.items()) == [("shared", (1, 3)), ("twice one", (2, 1)), ("a change in two", (1, 5)), ("a change", (4, 4))]
    assert [one() for one in planted((twice, value), (value, value))] == [2, 1]
    assert [one() for one in planted({"x": 6}, (value, value))] == [6, 6]
    assert planted(twice, value)() == 2
    assert planted({"x": 7}, value)() == 7
    assert planted(8, value) == 8


def test_selection_by_equation_and_speed():
    book = ClaimBook()
    book.claim("1", "one", method="flow", tolerance=EXACT, theory=0, wrong={"a": 1})(abs)
    book.claim("2", "two", method="flow", tolerance=EXACT, theory=0, wrong={"a": 1}, slow=True)(float)
    assert [check.equation for check in book.select()] == ["1"]
    assert [check.equation for check in book.select(full=True)] == ["1", "2"]
    assert [check.equation for check in book.select(["2"], full=True)] == ["2"]
