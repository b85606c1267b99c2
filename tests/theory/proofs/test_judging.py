"""Proofs handed over as text: true lines hold, false lines fail with a point, and what is not settled is unread."""

import json

import pytest
from iclflow.theory.proofs.judging import STATUSES, judged, report

LETTERS = """
let K: D x R; u: vector; A: symmetric; Sigma: covariance; c: scalar; b: positive   # several in a line
let W: sample covariance of n with Sigma; g: Gaussian(0, Sigma); F: d x d; Z: covariance; f: function
assume n > D + 1
"""
EXACT = [
    "E[S A S] = Lambda A Lambda + (Lambda A Lambda + tr(A Lambda) Lambda)/N",
    "E[W^2] = Sigma^2 + (Sigma^2 + tr(Sigma) Sigma)/n",
    "E[inv(W)] = n/(n - D - 1) inv(Sigma)",
    "E[g' A g] = tr(A Sigma)",
    "E[(g' A g)^2] = tr(A Sigma)^2 + 2 tr((A Sigma)^2)",
    "E[g g' | g] = g g'",
    "tr(A K K') = tr(K' A K)",
    "d/dK tr(K' A K) = 2 A K",
    "d/du [u' A u] (u' u) = 2 A u u' u",
    "d/dc (c^2 + b) = 2 c",
    "u' A u F = F u' A u",
    "tr(F Z) = tr(Z F)",
    "beta = S w",
    "E[beta beta'] = M",
    "d/dB E[(y_q - beta' B x_q)^2] = -2 (Lambda^2 - M B Lambda)",
    "E[sum_(n=1..N) x_n x_n']/N = Lambda",
    "sum_(n=1..N) x_n x_n'/N = S",
    "E[(sum_(n=1..N) x_n x_n'/N)^2] = E[S^2]",
    "E[sum_(n=1..N) y_n x_n x_q']/N = E[beta x_q']",
    "inv(Sigma) Sigma = I",
    "tr(I_d) = d",
    "(A + 2 I)^2 = A^2 + 4 A + 4 I",
    "A = A'",
]
NUMERIC = [
    "c^2 + 1 >= 2 c",
    "b/(1 + b/N) -> b (N -> infinity)",
    "b/(1 + b/N) -> b as N -> infinity",
    "b/(1 + b/N) ~ b - b^2/N (N -> infinity, up to order 2)",
    "b/(1 + b/N) ~ b as N -> infinity",
    "b/(1 + b/N) = b - b^2/N + O(N^-2)",
    "b/(1 + b/N) ~ b - b^2/N (N -> infinity, O(N^-2))",
    "exp(b) = 1 + b + O(b^2)",
    "lim_(N -> infinity) b/(1 + b/N) = b",
    "sum_(d=1..D) lambda_d^2 = tr(Lambda^2)",
    "sum_(d=1..m) lambda_d <= tr(Lambda)",
    "inv(I + Sigma) = I - Sigma inv(I + Sigma)",
    "inv(Sigma + u u') = inv(Sigma) - inv(Sigma) u u' inv(Sigma)/(1 + u' inv(Sigma) u)",
    "tr(Sigma)/tr(A Sigma A) > 0",
    "tr(F F')/tr(Z) + 1 > 0 for b > 2",
    "F Z != Z F",
    "f(c) + f(c) = 2 f(c)",
]
FALSE = [
    "E[W^2] = Sigma^2 + (Sigma^2 + tr(Sigma) Sigma)/N",
    "E[inv(W)] = n/(n - D) inv(Sigma)",
    "E[(g' A g)^2] = tr(A Sigma)^2 + tr((A Sigma)^2)",
    "d/dK tr(K' A K) = A K",
    "E[(sum_(n=1..N) x_n x_n'/N)^2] = Lambda^2",
    "c^2 + 1 > 2 c",
    "c^2 >= 3 c",
    "F Z = Z F",
    "b/(1 + b/N) -> 2 b (N -> infinity)",
    "b/(1 + b/N) = b - b^2/N + O(N^-3)",
    "sum_(d=1..D) lambda_d^2 = tr(Lambda)",
    "sum_(d=1..m) lambda_d >= tr(Lambda)",
    "inv(Sigma + u u') = inv(Sigma) - inv(Sigma) u u' inv(Sigma)/(1 - u' inv(Sigma) u)",
    "f(c) = f(2 c)",
    "tr(Z) F != tr(Z) F",
]
UNREAD = {
    "tr(A K K') = tr(K A K')": "shape mismatch in a product: K has shape (D, R), A has shape (D, D)",
    "hello world": "it has no relation",
    "1/2c = c/2": "what stands behind the / could be in the denominator or not",
    "E(g)^2 = 0": "the exponent could belong to what stands in the brackets",
    "c(b) = c b": "could be a product or a function",
    "c' = c": "the prime of a number",
    "tr(A) = 3 b": "on one side only",
    "d/dB tr(A) = 0": "does not hold B",
    "d/du u' A u = 0": "an equation to be solved",
    "d/dA tr(A A) = A": "several conventions",
    "A < Sigma": "matrices are not ordered",
    "A = 3 c + A A": "shape mismatch in a sum",
    "tr(A) = A": "a number on one side, a matrix on the other",
    "c ~ c": "needs its limit",
    "A => A": "implications are not read",
    "inv(K) = 0": "needs a square matrix",
    "c = 1/0": "division by zero",
    "E[(S A S K K' S)^9] = 0": "it would take about",
    "E[inv(W) F inv(W) F inv(W) F inv(W) F inv(W) F inv(W)] = F": "a term has 6 inverses of W",
    "A^41 = A": "an exponent of at most 40",
    "(A = A": "expected a closing bracket",
    "A ; A = A": "found ';', expected",
    "sqrt(A) = A": "sqrt of a matrix",
    "ln(c^2) = 2 ln(c)": "complex at some points",
    "Sigma := A": "Sigma has a meaning already",
    "q_hat: = c": "found ':', expected",
    "P = P B": "P has a meaning in the paper",
    "c > 2": "a claim about letters alone, or an assumption",
    "E[A] = A A": "nothing in this expectation is random",
    "S -> Lambda (N -> infinity)": "a limit in N of what is random",
    "E[w w'] E[v_hat] = I": "looks random and has no law",
    "b/(1 + b/N) -> b": "needs its limit",
    "F -> Z (d -> infinity)": "is the size of a matrix",
    "tr(I) = D": "the size of the identity",
    "A B = B A for A > 2": "an assumption is about numbers",
}


def verdicts(tmp_path, text, name="proof.txt"):
    path = tmp_path / name
    path.write_text(text)
    return judged(path)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    lines = [*EXACT, *NUMERIC, *FALSE]
    found = verdicts(tmp_path_factory.mktemp("proofs"), LETTERS + "\n\n".join(lines))
    assert [line.number for line in found] == list(range(1, len(lines) + 1))
    return {line.text: line for line in found}


@pytest.mark.parametrize("text", EXACT)
def test_true_lines_are_exact(found, text):
    assert found[text].status == "exact", found[text]


@pytest.mark.parametrize("text", NUMERIC)
def test_true_lines_hold_at_points(found, text):
    assert found[text].status in ("exact", "numeric"), found[text]


@pytest.mark.parametrize("text", FALSE)
def test_false_lines_fail_with_a_point(found, text):
    assert found[text].status == "fails", found[text]
    assert found[text].point or "equal" in found[text].reason
    assert found[text].reason


@pytest.mark.parametrize("text", UNREAD)
def test_what_is_not_settled_is_unread(tmp_path, text):
    (line,) = verdicts(tmp_path, f"{LETTERS}\n{text}")
    assert line.status == "unread", line
    assert UNREAD[text] in line.reason
    assert line.reason.startswith("line ")


def test_the_counterexample_is_one(found):
    """Putting the point into both sides gives the difference."""
    point = found["F Z = Z F"].point
    F, Z = point["F"], point["Z"]
    size = range(point["d"])
    one, other = (
        [[sum(a[i][k] * b[k][j] for k in size) for j in size] for i in size] for a, b in ((F, Z), (Z, F))
    )  # fmt: skip
    assert max(abs(one[i][j] - other[i][j]) for i in size for j in size) > 1e-6


def test_chains_definitions_and_continued_lines(tmp_path):
    found = verdicts(
        tmp_path,
        """
# the force
M := E[S^2]
d/dB E[(y_q - beta' B x_q)^2]
    = -2 Lambda^2 + 2 M B Lambda
    = -2 (Lambda -
        M B) Lambda = -2 (Lambda - B M) Lambda
C = Lambda B     # its first line: a definition
tr(C' C) = tr(B' Lambda^2 B)
d/dB tr(C) = Lambda
E[S C] = Lambda^2 B
tr(C) <= 2 tr(C)
    + 1 - tr(C)
""",
    )
    statuses = ["assumed", "exact", "exact", "fails", "assumed", "exact", "exact", "exact", "numeric"]
    assert [line.status for line in found] == statuses, found


def test_assumptions_are_met_or_named(tmp_path):
    found = verdicts(
        tmp_path,
        """
let p: scalar; q: scalar; m: integer
assume 0 < p < 1/10
assume q > 100 p + 50; m > 1000
p^2 < p
p < 1/10
q > 50
q > 60
N > 2 D
assume N > 4 D + 30
N > 2 D
m >= 1001
assume q < 0
q < 1
""",
    )
    by_text = [line.status for line in found]
    assert by_text[:3] == ["numeric", "numeric", "numeric"]
    assert by_text[3] == "unread"  # q > 60: a claim, or an assumption?
    assert by_text[4:6] == ["fails", "numeric"]
    assert by_text[-1] == "unread"  # no q is above 50 and below 0


def test_an_assumption_that_cannot_be_drawn_turns_failures_into_doubts(tmp_path):
    found = verdicts(tmp_path, "let A: D x D; C: D x D\nA C = C A\nassume A C = C A\nA C = C A\nA + C = C + A")
    assert [line.status for line in found] == ["fails", "unread", "exact"]
    assert "the assumption 'A C = C A' cannot be read" in found[1].reason


def test_declarations(tmp_path):
    text = """
let A, B: d x e; P: (k+1) x k^2; v: vector; Q: symmetric; N: samples; z: Gaussian(mu, Sigma); x: D x 1
let bad: nonsense; S_2: sample covariance of l with Gamma; 3: scalar
tr(A B') = tr(B' A)
P P' = (P P')'
Q v = (v' Q)'
E[z] = mu
E[z z'] = Sigma + mu mu'
E[S_2] = Gamma
x' Lambda x = tr(Lambda x x')
bad = bad
Q A = A
"""
    found = verdicts(tmp_path, text)
    assert [line.status for line in found] == [*["exact"] * 7, "unread", "unread"]
    assert "'bad: nonsense' cannot be read" in found[-2].reason
    assert "on one side only" in found[-1].reason


def test_bounds_on_work(tmp_path):
    long = "A = " + " + ".join(["A"] * 6000)
    deep = "c = " + "(" * 60 + "c" + ")" * 60
    wide = "E[(A + B + C + F)^9 (A + B + C + F)^9 S] = 0"
    found = verdicts(tmp_path, f"let c: scalar\n\n{long}\n\n{deep}\n\n{wide}")
    assert [line.status for line in found] == ["unread"] * 3
    assert "at most 10000 are read" in found[0].reason
    assert "at most 50 nested brackets" in found[1].reason
    assert "more than 20000 terms" in found[2].reason


def test_the_report(tmp_path):
    found = report(verdicts(tmp_path, "let A: D x D\nA = A\nA = 2 A\nA = ?\nC := A"))
    assert json.loads(json.dumps(found)) == found
    assert [line["status"] for line in found["lines"]] == ["exact", "fails", "unread", "assumed"]
    assert list(found["lines"][0]) == ["number", "text", "status", "residual", "reason", "point"]
    assert found["summary"] == dict(zip(STATUSES, (1, 0, 0, 1, 1, 1), strict=True))


@pytest.mark.parametrize("name", ["proof.pdf", "proof"])
def test_other_files_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match=r"the file must end in \.txt, \.md, \.tex"):
        verdicts(tmp_path, "", name)


def test_markdown_leaves_prose_out(tmp_path):
    text = """# Title

Some prose with $A = 3$ and a claim: A = 2 A.

```
let A: symmetric
A = A'
```

```python
A = "not maths"
```

* a list
    that goes on = nothing

    tr(A) = tr(A')
      = 2 tr(A)

Done.
"""
    found = verdicts(tmp_path, text, "proof.md")
    assert [(line.text, line.status) for line in found] == [("A = A'", "exact"), ("tr(A) = tr(A')", "exact"), ("= 2 tr(A)", "fails")]


def test_random_numbers_and_vectors(tmp_path):
    text = """
let z: Gaussian(0, 1); y: Gaussian(m, s^2); s: positive; m: scalar; x: Gaussian(0, I); q: Gaussian(0, 2 I); u: Gaussian(mu, Sigma)
E[z^4] = 3
E[y^2] = m^2 + s^2
E[x' x] = D
E[q q'] = 2 I
E[u u'] = Sigma + mu mu'
E[z x] = 0
E[exp(z)] = exp(1/2)
E[z^4] = 2
E[y^2] = s^2
E[exp(z)] = exp(1)
"""
    statuses = [*["exact"] * 6, "sampled", "fails", "fails", "fails"]
    assert [line.status for line in verdicts(tmp_path, text)] == statuses
