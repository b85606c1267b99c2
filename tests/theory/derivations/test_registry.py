"""An entry of the registry: unique numbers, definitions that derive nothing, parts by name, uses without a circle."""

import re
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

import pytest
from iclflow.theory.derivations.registry import Parts, define, erratum, register, rests_on, states
from iclflow.theory.equations import equation, equations


def test_a_number_is_given_once():
    assert equation("31")  # loads the book
    with pytest.raises(ValueError, match="registered twice"):
        define("31", "again", section="", left="", typed=lambda: 0)


def test_what_an_entry_says_is_said_once_below_register():
    def lines():
        raise AssertionError("is not called")

    for decorators in ((), (states(lambda: 0), states("part", lambda: 0))):
        for decorator in decorators:
            decorator(lines)
        with pytest.raises(ValueError, match=r"\(new\): below @register, @states\(formula\)"):
            register("new", "says nothing, or both")(lines)
    for first, again in ((states(lambda: 0), states(lambda: 1)), (states("part", lambda: 0), states("part", lambda: 1))):
        with pytest.raises(ValueError, match=r"lines: @states.* stands once"):
            again(first(lines))
    with pytest.raises(ValueError, match="@erratum stands once, below @register"):
        erratum("too late")(equation("31").derivation)


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
    for number, name, says in (("31", None, "ask for one"), ("31", "third", "first, second"), ("67", "first", "no parts")):
        with pytest.raises(KeyError, match=says):
            equation(number).part(name)


def test_no_entry_uses_itself_through_others_and_every_use_exists():
    uses = {entry.number: entry.uses for entry in equations()}
    assert all(used in uses for found in uses.values() for used in found)
    TopologicalSorter(uses).prepare()  # raises CycleError for a circle
    assert {how for found in uses.values() for how in found.values()} == {"line", "reason", "letter"}
    assert uses["24"]["59"] == "line"
    assert uses["59"]["9-closed"] == "reason"
    assert uses["8"] == {"4": "letter"}


def test_a_planted_circle_is_found():
    uses = {number: entry.uses for number in rests_on("24") for entry in [equation(number)]}
    assert rests_on("24", uses.__getitem__) == rests_on("24")
    with pytest.raises(CycleError) as found:
        rests_on("24", {**uses, "31": ("59",)}.__getitem__)
    assert {"31", "59"} <= set(found.value.args[1])


def test_an_entry_comes_after_all_that_it_rests_on():
    order = rests_on("24")
    assert order[-1] == "24"
    assert {"2", "3", "4", "8", "28", "31", "32", "9-closed", "59"} == set(order[:-1])
    for i, number in enumerate(order):
        assert set(equation(number).uses) <= set(order[:i])


def test_a_derivation_in_full_holds_every_line_once_and_uses_only_what_stands_before():
    whole = equation("24").derive(full=True)
    assert [line for entry in whole.entries for line in entry.lines] == list(whole.lines)
    text = str(whole)
    reasons = [line for line in text.splitlines() if line[:1].isdigit()]
    assert [int(line.split(".")[0]) for line in reasons] == list(range(1, len(whole.lines) + 1))
    assert text.index("(31) Second moment") < text.index("(32) Eigenvalues") < text.index("(59) The loss")
    for number, line in enumerate(reasons, 1):
        uses = line.split(" [by ")[1:]
        assert all(int(use) < number for one in uses for use in one.strip("]").split(", ") if use.isdigit())
    assert any(re.search(r"\[by \d+, \d+", line) for line in reasons)
    assert rf"\tag{{{len(whole.lines)}}}" in whole.latex()
    assert whole.markdown().count(r"\begin{aligned}") == len(whole.entries)


def test_a_part_is_written_when_it_is_asked_for():
    written = []
    parts = Parts({part: lambda part=part: written.append(part) or part.upper() for part in ("first", "second")})
    assert (list(parts), len(parts), "second" in parts, written) == (["first", "second"], 2, True, [])
    assert (parts["second"], parts["second"], written) == ("SECOND", "SECOND", ["second"])
    assert repr(parts) == repr({"first": "FIRST", "second": "SECOND"})
    assert parts | {"first": 1} == {"first": 1, "second": "SECOND"}
