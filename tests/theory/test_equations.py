"""The catalogue of equations: complete, ordered, searchable, careful with its input."""

from re import match

import pytest
from iclflow.theory.derivations.registry import KINDS
from iclflow.theory.equations import equation, equations, search


def test_every_number_of_the_paper_is_there():
    """(14) is there as (14a) and (14b)."""
    numbers = {entry.number for entry in equations()}
    assert [n for n in range(1, 88) if str(n) not in numbers and f"{n}a" not in numbers] == []


def test_entries_say_what_they_are():
    for entry in equations():
        assert entry.kind in KINDS
        assert entry.title
        assert entry.section
        assert set(entry.lefts) >= set(entry.parts) or set(entry.lefts) == {""}, entry.number
        assert (entry.derivation is None) <= (entry.kind == "definition"), entry.number
        assert not any(text.endswith(".") for text in (*map(str, entry.conditions), *entry.notes)), entry.number


def test_numbered_ones_come_first_and_in_order():
    numbers = [entry.number for entry in equations()]
    values = [int(match(r"\d+", number)[0]) if number[0].isdigit() else 1000 for number in numbers]
    assert values == sorted(values)
    assert numbers.index("9") < numbers.index("9-closed") < numbers.index("10") < numbers.index("M")
    assert numbers.index("V2-fixed") < numbers.index("V10-steps")


def test_unknown_numbers_suggest_near_ones():
    assert equation("(31)") is equation(31) is equation(" 31 ")
    with pytest.raises(KeyError, match=r"no equation \(88\); the nearest are"):
        equation(88)


def test_a_number_with_parts_names_them():
    with pytest.raises(KeyError, match=r"equation \(14\) has the parts 14a, 14b"):
        equation("14")


def test_numbers_and_words_are_checked():
    for number in (None, 3.5, True, ["31"]):
        with pytest.raises(TypeError, match="number must be a string or an integer"):
            equation(number)
    with pytest.raises(TypeError, match="words must be a string"):
        search(5)


def test_conditions_and_appendices_do_not_share_a_number():
    """(C1) is the condition of Section 4.2, (C.1) the expansion of Appendix C.1."""
    assert [equation(number).section for number in ("C1", "C2", "C3")] == ["Section 4.2"] * 3
    assert equation("C.1").section == "Appendix C.1"
    assert equation("E.1").section == "Appendix E.1"


def test_search_wants_every_word():
    found = {entry.number for entry in search("zero block")}
    assert {"39", "40"} <= found
    assert search("zero block nonsense") == ()
    with pytest.raises(ValueError, match="at least one word"):
        search("  ")
