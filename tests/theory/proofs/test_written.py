"""Derivations written down: each verb by its text, in text and LaTeX, and what cannot be read."""

import pytest
from iclflow.theory import E, derive
from iclflow.theory.notation import B, Lambda, Lambda_hat, M, beta, lambda_, x_q, y_q
from iclflow.theory.proofs.building import BuiltDerivation, FalseLineError
from iclflow.theory.proofs.written import MAX_STEPS, VERBS, Written, derive_written, play

LOSS = "E[(y_q - beta' B x_q)^2]"
DERIVED = {  # verb: (start, declarations, steps, the last right side)
    "expect": ("S A S", ["A: symmetric"], ["expect"], "(1 + 1/N) Lambda A Lambda + 1/N tr(A Lambda) Lambda"),
    "gradient": ("tr(A B)", [], ["gradient B"], "A'"),
    "substitute": ("A B", [], ["substitute B = Lambda/2"], "1/2 A Lambda"),
    "fold": ("E[S^2]", [], ["expect", "fold C = (1 + 1/N) Lambda^2"], "1/N tr(Lambda) Lambda + C"),
    "expand": ("(A + B) Lambda", [], ["expand"], "A Lambda + B Lambda"),
    "factor": ("A Lambda + B Lambda", [], ["factor"], "(A + B) Lambda"),
    "collect": ("E[S^2]", [], ["expect", "collect N", "collect traces", "expand"], "(1 + 1/N) Lambda^2 + 1/N tr(Lambda) Lambda"),
    "along_eigenvectors": ("Lambda B M", [], ["along_eigenvectors B = b"], "a b lambda"),
    "solve_for": ("3 b - lambda", ["b: scalar"], ["solve_for b"], "lambda/3"),
    "limit": ("u/(1 + 1/N)", ["u: positive"], ["limit N -> infinity"], "u"),
    "series": ("u/(1 + 1/N)", ["u: positive"], ["series N -> infinity, up to order 2"], "u - u/N"),
    "derivative": ("u^3", ["u: positive"], ["derivative u"], "3 u^2"),
    "hessian": ("tr(B' Lambda B)", [], ["hessian B = A"], "2 tr(A A' Lambda)"),
    "integrate": ("1/(u + 1)^2", ["u: positive"], ["integrate 0 < u < infinity"], "1"),
    "transpose": ("A B", [], ["transpose"], "B' A'"),
    "trace": ("A B", [], ["trace"], "tr(B A)"),
    "claim": ("(u - 1)^2", ["u: positive"], ["claim >= 0", "claim 0"], "0"),
}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb(verb):
    start, let, steps, last = DERIVED[verb]
    built = derive_written(start, *steps, let=[*let, "b: scalar"] if verb == "along_eigenvectors" else let)
    assert verb in [name for name, _, _ in built.moves]
    assert len(built.verdicts) == len(built.lines)
    assert all(verdict.status in ("exact", "numeric", "assumed") for verdict in built.verdicts)
    declared = [*let, "C: symmetric", "b: scalar"] if verb in ("fold", "along_eigenvectors") else let
    shown = Written(last, [], declared).start
    assert built.claim(shown).verdicts[-1].status in ("exact", "numeric")


def test_it_is_what_the_verbs_make():
    steps = ["expect", "fold M = E[S^2]", "gradient B", "claim 2 (M B - Lambda) Lambda"]
    latex = [r"\mathbb{E}\left[(y_q - \boldsymbol\beta^\top \mathbf B \mathbf x_q)^2\right]", "expect",
             r"fold \mathbf M = \mathbb{E}[\hat{\boldsymbol\Lambda}^2]", r"gradient \mathbf{B}",
             r"claim 2 (\mathbf{MB} - \boldsymbol\Lambda) \boldsymbol\Lambda"]  # fmt: skip
    built = derive(E((y_q - beta.T * B * x_q) ** 2)).expect().fold(M, E(Lambda_hat**2)).gradient(B).claim(2 * (M * B - Lambda) * Lambda)
    for written in (derive_written(LOSS, *steps), derive_written(*latex)):
        assert isinstance(written, BuiltDerivation)
        assert str(written) == str(built)
        assert [verdict.status for verdict in written.verdicts] == ["exact", "assumed", "exact", "exact", "exact"]
    assert derive_written("S A S").lines == ()


def test_claims_in_other_relations():
    built = derive_written("E[S^2]", "expect", "along_eigenvectors", "claim >= lambda^2", "claim -> lambda^2 (N -> infinity)")
    assert [line.relation for line in built.lines] == ["=", "=", ">=", "->"]
    assert built.right == lambda_**2
    built = derive_written("u/(1 + 1/N)", "claim ~ u - u/N (N -> infinity, up to order 2)", let=["u: positive"])
    assert built.lines[-1].order == 2


def test_a_false_line_is_told_from_a_verb_that_does_not_apply():
    with pytest.raises(FalseLineError, match=r"claim: .* fails at D = \d, .*A = \[\[") as caught:
        derive_written("S A S", "expect", "claim Lambda A Lambda")
    assert not caught.value.verdict
    with pytest.raises(ValueError, match=r"fold: .* is no part of") as caught:
        derive_written("S A S", "fold M = E[S^2]")
    assert not isinstance(caught.value, FalseLineError)
    with pytest.raises(ValueError, match=r"claim: the sides have the shapes \(D, D\) and of a number"):
        derive_written("S A S", "claim tr(A)")


def test_what_fails_is_passed_over():
    built, played = play("S A S", ["claim A", "expect", "gradient A", "claim 2 A", "solve_for B"], ["A: symmetric"])
    assert [[verdict.status for verdict in one.verdicts] for one in played] == [["fails"], ["exact"], [], ["fails"], []]
    assert [bool(one.error) for one in played] == [True, False, True, True, True]
    assert [line.reason for line in built.lines] == ["The expectation"]


def test_a_letter_that_is_positive_definite_is_drawn_so():
    assert derive_written("tr(C)", "claim >= 0", let=["C: covariance"]).verdicts[-1].status in ("numeric", "sampled")
    with pytest.raises(FalseLineError):
        derive_written("tr(C)", "claim >= 0", let=["C: symmetric"])


@pytest.mark.parametrize(
    ("start", "steps", "message"),
    [
        ("S +", [], "cannot read 'S \\+' at character 4"),
        ("A = B", [], "starts at one expression without a relation"),
        ("", [], "cannot read ''"),
        ("__import__('os').abort()", [], "cannot read .* at character 1: found '_'"),
        ("f(x)", [], "could be a product or a function"),
        ("(S + A)^40", [], "expands to more than"),
        ("S" * 3000, [], "at most 2000 characters, got 3000"),
        ("tr(B)", ["gradient"], "gradient: needs a letter"),
        ("tr(B)", ["expect B"], "expect: needs nothing behind it"),
        ("tr(B)", ["check"], "there is no verb 'check'; the verbs are expect, "),
        ("tr(B)", ["__init__ B"], "there is no verb '__init__'"),
        ("tr(B)", ["gradient 2"], "a letter was expected"),
        ("tr(B)", ["gradient B = A"], "a letter alone was expected"),
        ("tr(B)", ["substitute B"], "values are given as in"),
        ("tr(B)", ["fold 2 = 3"], "a letter and what it stands for"),
        ("tr(B)", ["claim := 3"], "a claim with := is not read"),
        ("tr(B)", ["claim A = B"], "a claim is a right side"),
        ("tr(B)", ["claim ~ 3"], "the limit is missing: write \\(N -> infinity, up to order 2\\)"),
        ("tr(B)", ["integrate u"], "a range was expected"),
        ("tr(B)", ["limit N = 3"], "a letter and its limit were expected"),
        ("tr(B)", ["claim 3, for N > D"], "conditions are not read here"),
        ("tr(B)", ["expand"] * (MAX_STEPS + 1), f"at most {MAX_STEPS}, got {MAX_STEPS + 1}"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(start, steps, message):
    with pytest.raises(ValueError, match=message):
        derive_written(start, *steps)


def test_a_declaration_that_cannot_be_read_is_named():
    with pytest.raises(ValueError, match="the declaration 'A: blue' cannot be read"):
        derive_written("A", let=["A: blue"])


@pytest.mark.parametrize("given", [(None,), ("E[S]", 3), (["E[S]"], "expect")])
def test_what_is_no_text_is_named(given):
    with pytest.raises(TypeError, match="a derivation must be given as texts, got"):
        derive_written(*given)
