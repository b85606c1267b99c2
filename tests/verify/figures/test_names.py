"""The names for help and completion are those of the gallery."""

from iclflow.verify.figures.gallery import load
from iclflow.verify.figures.names import FIGURE_NAMES, listed_names


def test_each_figure_is_named_once():
    named = [name for group in FIGURE_NAMES.values() for name in group]
    assert sorted(named) == sorted(load())


def test_each_subject_has_a_line():
    lines = listed_names().splitlines()
    assert len(lines) == len(FIGURE_NAMES)
    for line, (subject, names) in zip(lines, FIGURE_NAMES.items(), strict=True):
        assert line.split("  ")[1].strip() == subject
        assert line.endswith(", ".join(names))
