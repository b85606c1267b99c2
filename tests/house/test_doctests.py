"""The examples in the docstrings of every module."""

import doctest
import importlib
import pkgutil

import pytest

PACKAGES = ("iclflow.theory", "iclflow.numerics", "iclflow.verify")


def modules():
    for name in PACKAGES:
        package = importlib.import_module(name)
        yield name
        yield from (module.name for module in pkgutil.walk_packages(package.__path__, name + "."))


MODULES = sorted(modules())


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


def test_the_engine_has_examples():
    for name in ("algebra.polynomial", "expectation.moments", "calculus.derivatives", "algebra.printing", "algebra.parsing", "notation"):
        module = importlib.import_module(f"iclflow.theory.{name}")
        assert sum(len(test.examples) for test in doctest.DocTestFinder().find(module)) > 0, name
