"""The population loss under general laws (V0), against prompts written out entry by entry and other routes to the same moments."""

import pytest
import sympy
from iclflow.theory import Fixed, Gaussian, SampleCovariance, TracePolynomial, expect, substitute
from iclflow.theory.notation import D, Lambda, Lambda_hat, Lambda_q, N, sigma, vector, w, x_q
from iclflow.theory.results.task.population import GENERAL, Sigma_w, any_tokens, fourth, population_moments
from iclflow.theory.results.variations.token_laws import elliptical_fourth, gaussian_fourth, kappa
from prompts import prompt, values


@pytest.mark.parametrize("samples", [1, 3])
def test_general_moments_entry_by_entry(samples):
    correlation, query, target, moment = prompt(samples)
    A, M, Q, c = GENERAL.moments
    assert values(A, samples) == (correlation * target * query.T).expectation(moment)
    assert values(M, samples) == (correlation * correlation.T).expectation(moment)
    assert values(Q, samples) == (query * query.T).expectation(moment)
    assert values(c, samples) == (target * target).expectation(moment)


def test_a_query_from_the_context_is_refused():
    with pytest.raises(ValueError, match="given the context"):
        population_moments((Fixed(x_q, Lambda_hat * w),))


def test_any_tokens_agree_with_gaussian_ones_and_with_the_map_of_the_engine():
    assert substitute(any_tokens().M, {fourth: gaussian_fourth()}) == GENERAL.moments.M
    C = TracePolynomial(Lambda)
    by_map = SampleCovariance(Lambda_hat, Lambda, N, fourth_moment=lambda A: kappa * (C * A * C + C * A.T * C + (A * C).trace() * C))
    z = vector("z", D)
    found = expect(Lambda_hat * z * z.T * Lambda_hat, [by_map, Gaussian(z, covariance=Sigma_w)])
    assert found == substitute(any_tokens().M, {fourth: elliptical_fourth(), sigma: 0})


def test_laws_of_the_paper_are_a_special_case():
    plain = population_moments()
    assert tuple(substitute(one, {Sigma_w: sympy.Identity(D), Lambda_q: Lambda, sigma: 0}) for one in GENERAL.moments) == plain
