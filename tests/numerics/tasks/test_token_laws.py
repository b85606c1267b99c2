"""Laws of tokens: moments of samples; what is refused."""

import numpy as np
import pytest
from iclflow.numerics import RegressionTask
from iclflow.numerics.tasks.token_laws import GaussianTokens, RademacherTokens, SphereTokens, StudentTokens

LAWS = [SphereTokens(), StudentTokens(12), RademacherTokens()]


@pytest.mark.parametrize("law", [GaussianTokens(), *LAWS])
def test_white_vectors_have_covariance_one_and_the_fourth_moment_they_claim(law):
    z = law.white(np.random.default_rng(4).standard_normal, (200_000, 3))
    S = np.array([[1.0, 0.5, 0.0], [0.5, 2.0, -1.0], [0.0, -1.0, 0.5]])
    for sampled, exact in (
        (z[:, :, None] * z[:, None], np.eye(3)),
        (z[:, :, None] * z[:, None] * np.einsum("pi,ij,pj->p", z, S, z)[:, None, None], law.fourth_moment(np.eye(3), S)),
    ):
        error = sampled.std(axis=0) / np.sqrt(len(z)) + 1e-12
        assert (np.abs(sampled.mean(axis=0) - exact) < 5 * error).all()


def test_laws_of_tokens_are_checked():
    with pytest.raises(ValueError, match="degrees_of_freedom must be above 4"):
        StudentTokens(4)
    with pytest.raises(TypeError, match="token_law must be a TokenLaw"):
        RegressionTask(eigenvalues=[0.6], context_length=3, token_law="sphere")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="token_law must be a TokenLaw, such as SphereTokens"):
        RegressionTask(eigenvalues=[0.6], context_length=3, token_law=SphereTokens)
    with pytest.raises(TypeError, match="context_gain must be one of present, longest, official, or"):
        RegressionTask(eigenvalues=[0.6], context_length=3, context_gain=0.5)
    with pytest.raises(TypeError, match="context_lengths must be several lengths"):
        RegressionTask(eigenvalues=[0.6], context_lengths=3)
