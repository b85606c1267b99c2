"""An entry of the registry: numbers are unique, definitions derive nothing, every part is compared, parts have names."""

from dataclasses import replace

import pytest
from iclflow.theory.derivations.registry import define
from iclflow.theory.equations import equation


def test_a_number_is_given_once():
    assert equation("31")  # loads the book
    with pytest.raises(ValueError, match="registered twice"):
        define("31", "again", section="", left="", typed=lambda: 0)


def test_a_definition_has_nothing_to_derive():
    with pytest.raises(ValueError, match=r"\(8\) is a definition"):
        equation("8").derive()


def test_a_statement_with_a_missing_part_does_not_hold():
    entry = equation("31")
    assert entry.holds()
    assert not replace(entry, typed=lambda: {"first": entry.statement["first"]}).holds()


def test_parts_are_asked_for_by_name():
    assert equation("31").part("second") == equation("31").statement["second"]
    assert equation("67").part() == equation("67").part("") == equation("67").statement
    for number, part, says in (("31", None, "ask for one"), ("31", "third", "first, second"), ("67", "first", "no parts")):
        with pytest.raises(KeyError, match=says):
            equation(number).part(part)
