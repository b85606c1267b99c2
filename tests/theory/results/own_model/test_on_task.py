"""The laws of varied tasks stated to a model of one's own: against the general moments (V0), (V4), (V5), and what is refused."""

import pytest
from iclflow.theory import Fixed, Gaussian, SampleCovariance, TracePolynomial, expect, explicit, substitute
from iclflow.theory.model import Model
from iclflow.theory.notation import D, Lambda, Lambda_hat, Lambda_q, N, beta, matrix, sigma, vector, w, x_q, y_q
from iclflow.theory.results.own_model.on_task import cumulant, mean_over_lengths, on_task
from iclflow.theory.results.own_model.two_steps import U, two_steps
from iclflow.theory.results.task.population import GENERAL, Sigma_w, g_1, g_2, g_3, g_n
from iclflow.theory.results.variations.random_length import LENGTHS, nu
from iclflow.theory.results.variations.token_laws import kappa
from sympy import Identity, Symbol

LINEAR = Model(beta.T * U * x_q, (U,))
EVERYTHING = ("noise_variance", "task_covariance", "query_covariance")


def general_loss(moments):
    A, M, Q, c = moments
    B = TracePolynomial(U)
    return c - 2 * (A.T * B).trace() + (B.T * M * B * Q).trace()


def test_linear_model_has_the_general_loss():
    """All of V0 at once, from the expression alone; and each variation alone is the others at their defaults."""
    assert on_task(LINEAR, EVERYTHING).loss() == general_loss(GENERAL.moments)
    alone = on_task(LINEAR, {"noise_variance"}).loss()
    assert alone == substitute(general_loss(GENERAL.moments), {Sigma_w: Identity(D), Lambda_q: Lambda})
    assert on_task(LINEAR, ("context_lengths",)) is LINEAR


def test_the_parameters_become_constants():
    assert on_task(LINEAR, EVERYTHING).constants == (sigma, Lambda_q, Sigma_w)
    assert on_task(LINEAR, {"token_law"}).constants == (kappa,)
    assert on_task(LINEAR, {"token_law"}, 2).constants == (*cumulant(0), *cumulant(1))
    own = Model(beta.T * U * beta, (U,), target=w.T * Lambda * w)  # which has neither noise nor a query
    assert on_task(own, {"query_covariance", "task_covariance"}).constants == (Sigma_w,)


def test_noise_is_averaged_over_the_tokens_that_there_are():
    """A model with N + 4 tokens of its own: its noise is divided by N + 4 too."""
    longer = Model(LINEAR.prediction, (U,), laws=(SampleCovariance(Lambda_hat, Lambda, N + 4),))
    assert on_task(longer, {"noise_variance"}).loss() == substitute(on_task(LINEAR, {"noise_variance"}).loss(), {N: N + 4})
    with pytest.raises(ValueError, match="make Lambda_hat a SampleCovariance for noise_variance"):
        on_task(Model(LINEAR.prediction, (U,), laws=(Fixed(Lambda_hat, Lambda),)), {"noise_variance"})


def test_elliptical_tokens_at_kappa_one_are_gaussian():
    loss = on_task(LINEAR, {"token_law"}).loss()
    assert loss != LINEAR.loss()
    assert substitute(loss, {kappa: 1}) == LINEAR.loss()


def test_cumulants_of_elliptical_tokens():
    """D = 1, where every law has one cumulant: kappa = 1 + c V^2/(3 lambda^2)."""
    c, V = cumulant(0)
    numbers = {Lambda: [[2]], U: [[3]], V: [[5]]}
    general = explicit(on_task(LINEAR, {"token_law"}, 1).loss(), numbers, D=1).subs({c: Symbol("c")})
    elliptical = explicit(on_task(LINEAR, {"token_law"}).loss(), {Lambda: [[2]], U: [[3]]}, D=1)
    assert (elliptical.subs(kappa, 1 + Symbol("c") * 25 / (3 * 4)) - general).expand() == 0


def test_mean_over_lengths_of_the_linear_model():
    """It is the fixed length 1/E(1/n), (V4-moments)."""
    (averaged,), means = mean_over_lengths((LINEAR.loss(),))
    ((letter, function),) = means.items()
    assert function == 1 / N
    assert N not in averaged.free_symbols
    assert substitute(averaged, {letter: nu}) == substitute(LINEAR.loss(), {N: 1 / nu})


def test_mean_over_lengths_keeps_every_function_apart():
    """1/N^2 is no square of 1/N; put back, each letter gives the loss."""
    (averaged,), means = mean_over_lengths((two_steps().loss(),))
    assert set(means.values()) == {1 / N, N**-2, N**-3}
    assert substitute(averaged, dict(means)) == two_steps().loss()
    inverse = expect(Lambda_hat.inv())
    (averaged,), means = mean_over_lengths((inverse,))
    assert substitute(averaged, dict(means)) == inverse
    assert averaged.conditions == inverse.conditions == {N > D + 1}


zeta, A, v = vector("zeta", D), matrix("A", D), Symbol("v", positive=True)


@pytest.mark.parametrize(
    ("model", "variation", "words"),
    [
        (Model(LINEAR.prediction, (U,), laws=(Gaussian(w, covariance=Lambda),)), "task_covariance", "one for w, which task_cov"),
        (Model(LINEAR.prediction, (U,), laws=(Gaussian(x_q),)), "query_covariance", "one for x_q, which query_covariance"),
        (Model(LINEAR.prediction, (U,), laws=(Fixed(beta, w),)), "noise_variance", "one for beta, which noise_variance"),
        (Model(LINEAR.prediction, (U,), laws=(Fixed(y_q, w.T * w),)), "noise_variance", "one for y_q, which noise_variance"),
        (Model(LINEAR.prediction, (U,), laws=(SampleCovariance(Lambda_hat, Lambda, N + 1),)), "token_law", "one for Lambda_hat"),
        (Model(beta.T * U * x_q + zeta.T * x_q, (U, zeta)), "noise_variance", "zeta of the model must have another name"),
        (Model(sigma * beta.T * U * x_q, (U, sigma)), "noise_variance", "sigma of the model must have another name"),
        (Model(beta.T * matrix("Sigma_w", D) * x_q, (matrix("Sigma_w", D),)), "task_covariance", "Sigma_w of the model must"),
        (two_steps(), "token_law", "holds Lambda_hat 4 times in one term.*ModelNetwork"),
        (Model(beta.T * U * x_q * (x_q.T * A * x_q), (U, A)), "token_law", "holds x_q 6 times in one term.*GaussianTokens"),
        (Model(beta.T * Lambda_hat.inv() * Lambda_hat.inv() * U * x_q, (U,)), "token_law", "holds Lambda_hat inverted"),
    ],
)  # fmt: skip
def test_what_cannot_be_stated_says_what_to_do(model, variation, words):
    with pytest.raises(ValueError, match=words):
        on_task(model, {variation})


def test_a_query_law_of_ones_own_is_kept():
    """It replaces the tokens' law for the query, so that its moments are known."""
    model = Model(beta.T * U * x_q * (x_q.T * A * x_q), (U, A), laws=(Gaussian(x_q, covariance=Lambda_q),), constants=(Lambda_q,))
    assert on_task(model, {"token_law"}).loss().free_symbols >= {kappa, Lambda_q}


def test_a_weight_in_a_denominator_with_the_length():
    model = Model(beta.T * U * x_q / (N + v), (U, v))
    with pytest.raises(ValueError, match="where v stands with N in a denominator"):
        mean_over_lengths((model.loss(),))


def test_a_known_parameter_may_stand_in_the_prediction():
    """A prediction that knows the noise: sigma is the task's."""
    model = Model(beta.T * U * x_q - sigma**2 * beta.T * x_q, (U,), constants=(sigma,))
    stated = on_task(model, {"noise_variance"})
    assert stated.constants == (sigma,)
    known = substitute(on_task(LINEAR, {"noise_variance"}).loss(), {U: U - sigma**2 * Identity(D)})
    assert stated.loss() == known


def test_gains_enter_the_prediction_with_every_sum_over_the_context():
    """(V4-moments) for the linear model; cubes for two steps; inverses, which take them back."""
    loss = on_task(LINEAR, {"context_gain"}).loss()
    assert substitute(loss, {g_n: 1}) == LINEAR.loss()
    (found,), means = mean_over_lengths([loss])
    values = {letter: {g_n: g_1, g_n**2: g_2, g_n**2 / N: g_3}[function] for letter, function in means.items()}
    plain = {Sigma_w: Identity(D), Lambda_q: Lambda, sigma: 0}
    assert substitute(found, values) == substitute(general_loss(LENGTHS.moments), plain)
    deep = on_task(two_steps(), {"context_gain"})
    assert deep.prediction == 2 * g_n * TracePolynomial(beta.T * U * x_q) - g_n**2 * TracePolynomial(beta.T * U * Lambda_hat * U * x_q)
    least = Model(beta.T * U * Lambda_hat.I * x_q, (U,))
    assert on_task(least, {"context_gain"}).prediction == least.prediction


def test_gains_are_refused_in_laws_of_ones_own_and_under_their_own_name():
    z = vector("z", D)
    hidden = Model(z.T * U * x_q, (U,), laws=(Fixed(z, Lambda_hat * beta),))
    with pytest.raises(ValueError, match="must not state z by the context for context_gain"):
        on_task(hidden, {"context_gain"})
    apart = Model(z.T * U * x_q, (U,), laws=(Gaussian(z),))
    assert on_task(apart, {"context_gain"}).loss() == apart.loss()
    taken = Symbol("g_n")
    with pytest.raises(ValueError, match="g_n of the model must have another name: context_gain"):
        on_task(Model(taken * beta.T * U * x_q, (U,), constants=(taken,)), {"context_gain"})
