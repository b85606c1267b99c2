"""(V7-flow), (V7-time), (V7-share), (V7-tail): planted faults, and what the bounds rest on."""

from dataclasses import replace

import numpy as np
import pytest
from iclflow.theory.equations import equation
from iclflow.theory.merged_drop import K, kappa_max, kappa_min, n
from iclflow.theory.notation import lambda_
from iclflow.theory.reduction import gamma
from iclflow.theory.sigmoid import s_0

ENTRIES = ("V7-flow", "V7-time", "V7-share", "V7-tail")


@pytest.mark.parametrize("number", ENTRIES)
def test_entry_holds(number):
    assert equation(number).holds()


@pytest.mark.parametrize(
    ("number", "part", "change"),
    [
        ("V7-flow", "force", {lambda_: 2 * lambda_}),
        ("V7-flow", "size", {K: 2 * K}),
        ("V7-flow", "direction", {n: -n}),
        ("V7-time", "earliest", {kappa_min: kappa_max}),
        ("V7-time", "latest", {s_0: 2 * s_0}),
        ("V7-time", "apart", {gamma: 2 * gamma}),
        ("V7-share", "bound", {kappa_min: 2 * kappa_min}),
        ("V7-share", "fall", {gamma: 2 * gamma}),
        ("V7-share", "gap", {kappa_min: kappa_max}),
        ("V7-tail", "rate", {K: -K}),
        ("V7-tail", "ratio", {kappa_max: 2 * kappa_max}),
    ],
)
def test_entry_catches_a_fault(number, part, change):
    entry = equation(number)
    assert not replace(entry, typed=lambda: {**entry.typed(), part: entry.typed()[part].subs(change)}).holds()


def test_what_the_bounds_use():
    """n'Kn between the extremes of K; the part of Kn across n at most half their difference; both on random unit vectors."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        kappa, unit = rng.uniform(0, 1, 5), rng.standard_normal(5)
        unit /= np.linalg.norm(unit)
        along = unit @ (kappa * unit)
        assert kappa.min() <= along <= kappa.max()
        assert np.linalg.norm(kappa * unit - along * unit) <= (kappa.max() - kappa.min()) / 2
