r"""Every symbol of the paper, once, with its assumptions and its LaTeX.

Matrices and vectors are SymPy ``MatrixSymbol`` objects that know whether they are symmetric and how they are typeset:

>>> Lambda_hat.T == Lambda_hat
True
>>> from sympy import latex
>>> latex(Lambda_hat)
'\\hat{\\boldsymbol{\\Lambda}}'

The letters are the paper's (Zhang, Singh, Latham, Saxe, arXiv 2501.16265), with three of this project's: B is the effective
map of the model, y_hat = beta' B x_q; M = E(Lambda_hat^2); G = Lambda^2 - M B Lambda is minus half the gradient of the loss in B.
"""

from sympy import S, Symbol, symbols, sympify
from sympy.core.symbol import Str
from sympy.matrices.expressions import MatrixSymbol
from sympy.printing.latex import translate


class MatrixLetter(MatrixSymbol):
    """A ``MatrixSymbol`` that knows whether it is symmetric and how it is typeset.

    Make one with :func:`matrix`, :func:`symmetric_matrix` or :func:`vector`.
    """

    def __new__(cls, name, rows, columns, latex=None, symmetric=S.false):
        try:
            plain = MatrixSymbol(name, rows, columns)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"the sizes of {name} must be letters such as D, or positive integers, got {rows!r} and {columns!r}"
            ) from error
        latex = plain.name if latex is None else str(latex)
        return super(MatrixSymbol, cls).__new__(cls, *plain.args, Str(latex), sympify(symmetric))

    @property
    def is_symmetric_letter(self):
        return bool(self.args[4])

    def doit(self, **hints):
        return self  # as a letter does; SymPy's matrix symbols are made anew, in every product

    def _eval_transpose(self):
        return self if self.is_symmetric_letter else super()._eval_transpose()

    def _latex(self, printer):
        return self.args[3].name


def matrix(name, rows, columns=None, *, latex=None):
    """A constant matrix of shape (rows, columns), square when ``columns`` is left out."""
    return MatrixLetter(name, rows, rows if columns is None else columns, latex or _bold(name))


def symmetric_matrix(name, size, *, latex=None):
    """A symmetric matrix of shape (size, size); it equals its transpose everywhere in this package."""
    return MatrixLetter(name, size, size, latex or _bold(name), S.true)


def vector(name, size, *, latex=None):
    """A column vector of shape (size, 1)."""
    return MatrixLetter(name, size, 1, latex or _bold(name))


def _bold(name):
    """``A`` -> bold A, ``k_i`` -> bold k with subscript i, ``A_hat`` -> bold A under a hat; ``WK`` is one letter of two."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"name must be a text such as 'U' or 'k_i', got {name!r}")
    stem, _, index = name.partition("_")
    hat, index = index == "hat", "_".join(filter(None, index.split("_")))
    greek = translate(stem)
    stem = greek if greek != stem or len(stem) <= 1 or not stem.isalpha() else rf"\mathrm{{{stem}}}"
    bold = rf"\boldsymbol{{{stem}}}"
    if hat:
        return rf"\hat{{{bold}}}"
    return rf"{bold}_{{{index}}}" if index else bold


# Sizes
D = Symbol("D", integer=True, positive=True)  # dimension of a token x
N = Symbol("N", integer=True, positive=True)  # context length
H = Symbol("H", integer=True, positive=True)  # heads
R = Symbol("R", integer=True, positive=True)  # rank of a head

# Data, equations (1)-(4), (8), (28)
Lambda = symmetric_matrix("Lambda", D)  # token covariance
Lambda_q = symmetric_matrix("Lambda_q", D, latex=r"\boldsymbol{\Lambda}_q")  # query covariance, where it differs
Lambda_hat = symmetric_matrix("Lambda_hat", D, latex=r"\hat{\boldsymbol{\Lambda}}")  # sample covariance of the context
w = vector("w", D)  # task vector
x_q = vector("x_q", D)  # query token
beta = vector("beta", D)  # input-output correlation of the context, Lambda_hat w
y_q = MatrixLetter("y_q", 1, 1, "y_q")  # target, w' x_q
x_n, y_n = vector("x_n", D), MatrixLetter("y_n", 1, 1, "y_n")  # one token of the context and its target
X_c, y = matrix("X_c", D, N), vector("y", N)  # the context tokens, as columns, and their targets
zeta = vector("zeta", D)  # (1/N) sum_n eps_n x_n, what label noise adds to beta
noise_q = MatrixLetter("epsilon_q", 1, 1, r"\epsilon_q")  # the noise on the label of the query

# Model
B = matrix("B", D)  # effective map
M = symmetric_matrix("M", D)  # E(Lambda_hat^2)
G = matrix("G", D)  # minus half the gradient of the loss in B
v_i = Symbol("v_i", real=True)  # value weight of head i
prediction = MatrixLetter("yhat_q", 1, 1, r"\hat y_q")  # the output, of all heads together
prediction_other = MatrixLetter("yhat_other", 1, 1, r"\hat y_{\rm other}")  # what the other heads add
prediction_i = MatrixLetter("yhat_q^(i)", 1, 1, r"\hat y_q^{(i)}")  # what head i adds to it

# Along an eigenvector of Lambda
e_d = vector("e_d", D)  # of unit length
lambda_ = Symbol("lambda", positive=True)  # its eigenvalue
a = Symbol("a", positive=True)  # the eigenvalue of M that belongs to lambda, equation (32)
T = Symbol("T", positive=True)  # tr(Lambda)
P = symmetric_matrix("P", D)  # the projector onto the span of the learned directions, d in S
learned = Symbol("chi", nonnegative=True)  # its eigenvalue: 1 for d in S, 0 for the other directions
# The last one learned, the one that grows and the next
lambda_m, lambda_next, lambda_after = symbols("lambda_m lambda_{m+1} lambda_{m+2}", positive=True)

# Training
tau = Symbol("tau", positive=True)  # time constant of the flow
t = Symbol("t", nonnegative=True)
w_init = Symbol("w_init", positive=True)  # initial scale
sigma = Symbol("sigma", nonnegative=True)  # label-noise standard deviation
rho = Symbol("rho", positive=True)  # a fraction of the final value

# Separate attention
k_i, q_i = vector("k_i", D), vector("q_i", D)  # a head of rank one
K_i, Q_i = matrix("K_i", D, R), matrix("Q_i", D, R)  # a head of rank R, a column for each r
B_rest = matrix("B_rest", D, latex=r"\boldsymbol{B}_{\neq i}")  # what the other heads add to B

# The head k = q = v e that grows, and those that wait
e = vector("e", D)  # the unit eigenvector along which a head grows
v = Symbol("v", real=True)  # the value weight of that head
v_0 = Symbol("v_0", positive=True)  # v at t = 0
v_star = Symbol("v_*", positive=True)  # v at rest, equation (25)
clock = Symbol("s", real=True)  # the time of a waiting head: the integral of v dt / tau

# Merged attention
W_1, w_2 = matrix("W_1", H, D**2), vector("w_2", H)  # the layers of the equivalent network
c_hat = vector("c_hat", D**2)  # the direction of E(y_q z)
gamma = Symbol("gamma", positive=True)  # the norm of E(y_q z)
alpha = Symbol("alpha", positive=True)  # white tokens: E(z z') = alpha I
s = Symbol("s", positive=True)  # w_2' w_2
s_0 = Symbol("s_0", positive=True)  # s at t = 0
p = Symbol("p", real=True)  # cosine of the angle between vec(B) and E(y_q z)
p_0 = Symbol("p_0", real=True)  # p at t = 0
sigma_level = Symbol("sigma_t", nonnegative=True)  # the value of sigma(t) in (15)
