"""The loss on a test unlike training (V3), against prompts written out entry by entry."""

from entries import Entries
from iclflow.theory.equations import equation
from prompts import MAP, prompt, values


def test_the_test_loss_entry_by_entry():
    correlation, query, target, moment = prompt(2)
    error = target + correlation.T * Entries.constant(MAP) * query * -1
    assert values(equation("V3-test").derive().result, 2) == (error * error).expectation(moment)
    assert values(equation("V3-test").statement, 2) == (error * error).expectation(moment)
