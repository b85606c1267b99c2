"""The setting of one run: the task it describes, the options that it is written as, and back."""

import shlex

import numpy as np
import pytest
from iclflow.numerics import RademacherTokens, RegressionTask, SphereTokens, StudentTokens
from iclflow.verify.cli.options import as_options, setting_of
from iclflow.verify.cli.parser import build
from iclflow.verify.experiments.kinds import equally_likely
from iclflow.verify.experiments.setting import Setting

MATRIX = ((1.0, 0.5, 0.0, 0.0), (0.5, 1.5, 0.0, 0.0), (0.0, 0.0, 2.0, -0.25), (0.0, 0.0, -0.25, 1.0))
SPECTRUM = [0.4, 0.3, 0.2, 0.1]

SETTINGS = {
    "--noise-variance 0.5": Setting(noise_variance=0.5),
    "--task-eigenvalues 0.2,1.0,2.0,0.5": Setting(task_covariance=(0.2, 1.0, 2.0, 0.5)),
    "--query-covariance '1.0,0.5,0.0,0.0;0.5,1.5,0.0,0.0;0.0,0.0,2.0,-0.25;0.0,0.0,-0.25,1.0'": Setting(query_covariance=MATRIX),
    "--context-lengths 1-31": Setting(context_lengths=equally_likely(range(1, 32))),
    "--context-lengths 8,16": Setting(context_lengths=equally_likely([8, 16])),
    "--context-lengths 1-31 --context-gain official": Setting(
        context_lengths=equally_likely(range(1, 32)), context_gain="official"
    ),
    "--context-lengths 8:0.25,16:0.75": Setting(context_lengths=((8, 0.25), (16, 0.75))),
    "--noise-variance 0.1 --token-law student:9": Setting(noise_variance=0.1, token_law="student:9"),
}  # fmt: skip


@pytest.mark.parametrize("text", SETTINGS)
def test_options_and_settings_are_the_same(text):
    setting = SETTINGS[text]
    assert as_options(setting.variations) == text
    assert setting_of(build().parse_args(["flow", *shlex.split(text)])) == setting


def test_the_default_has_no_variation():
    assert Setting().variations == {}
    assert not Setting().task.variations
    assert setting_of(build().parse_args(["flow"])) == Setting()


def test_the_task_is_that_of_the_arguments():
    setting = Setting(
        noise_variance=0.5,
        task_covariance=(0.2, 1.0, 2.0, 0.5),
        query_covariance=MATRIX,
        context_lengths=((8, 0.25), (16, 0.75)),
        context_gain="longest",
        token_law="rademacher",
    )
    task = RegressionTask(
        eigenvalues=SPECTRUM,
        noise_variance=0.5,
        task_covariance=np.diag([0.2, 1.0, 2.0, 0.5]),
        query_covariance=MATRIX,
        context_lengths={8: 0.25, 16: 0.75},
        context_gain="longest",
        token_law=RademacherTokens(),
    )
    assert setting.task.variations == task.variations
    for ours, theirs in zip(setting.task.loss_moments, task.loss_moments, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert setting.context_length == 16
    assert [Setting(token_law=name).tokens for name in ("sphere", "student:7")] == [SphereTokens(), StudentTokens(7)]


def test_covariances_turn_with_the_tokens():
    """Along the eigenvectors of the tokens: a tilt changes no level."""
    plain = Setting(task_covariance=MATRIX, query_covariance=(1.0, 2.0, 3.0, 4.0))
    tilted = Setting(task_covariance=MATRIX, query_covariance=(1.0, 2.0, 3.0, 4.0), tilt_seed=3)
    assert np.abs(tilted.task.task_covariance - np.array(MATRIX)).max() > 0.1
    np.testing.assert_allclose(np.sort(tilted.task.modes.drops), np.sort(plain.task.modes.drops), rtol=1e-10)
    assert tilted.task.loss_moments.c == pytest.approx(plain.task.loss_moments.c)


def test_lengths_listed_twice_count_twice_and_those_of_probability_zero_not_at_all():
    given = setting_of(build().parse_args(["flow", "--context-lengths", "8,16,8-9"]))
    assert given == Setting(context_lengths=((8, 0.5), (16, 0.25), (9, 0.25)))
    assert equally_likely([8, 16, 8, 9]) == given.context_lengths
    never = setting_of(build().parse_args(["flow", "--context-lengths", "8:1,100:0"]))
    assert (never.context_length, never.task.context_length) == (8, 8)
    with pytest.raises(ValueError, match="context_gain must be one of present, longest, official, got 'mean'"):
        Setting(context_gain="mean")
