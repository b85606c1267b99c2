# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 11. Check a proof of yours
#
# **Claim.** A proof can be handed over as it stands in a paper. Every line is judged; a wrong one comes back with a
# point at which its two sides differ, and the right one goes into the paper from the steps that derive it. As an
# example, the gradient of the loss (53), with two factors in the wrong order.

# %%
# %matplotlib inline
# %config InlineBackend.figure_formats = ["retina"]
import tempfile
from pathlib import Path

import iclflow.theory.notation as n
import numpy as np
from iclflow.numerics import compile_expression
from iclflow.theory import E, derive, expect
from iclflow.verify.cli.main import main
from iclflow.verify.figures.gallery import canvas
from iclflow.verify.figures.style import LOSS, SERIES, themed

# %% [markdown]
# ## A wrong proof
# The loss of linear attention is quadratic in its effective map. Its gradient is written down from memory:

# %%
proof = Path(tempfile.mkdtemp()) / "proof.tex"
proof.write_text(r"""
\begin{align*}
  \mathbf{M} &:= \mathbb{E}[\hat{\boldsymbol\Lambda}^2] \\
    &= \boldsymbol\Lambda^2
      + \tfrac1N \left(\boldsymbol\Lambda^2
      + \operatorname{tr}(\boldsymbol\Lambda) \boldsymbol\Lambda\right) \\
  \nabla_{\mathbf B}\,
    \mathbb{E}\left[(y_q - \boldsymbol\beta^\top \mathbf B \mathbf x_q)^2\right]
    &= -2 \left(\boldsymbol\Lambda^2 - \mathbf B \mathbf M \boldsymbol\Lambda\right)
\end{align*}
""")

code = main(["prove", str(proof)])

# %% [markdown]
# ## The counterexample
# The last line fails, and the point above is small enough to be followed by hand. Where did it go wrong? Each verb
# adds a line of its own, which is judged as it is added. The false claim is refused:

# %%
loss = derive(E((n.y_q - n.beta.T * n.B * n.x_q) ** 2)).expect()
force = loss.fold(n.M, E(n.Lambda_hat**2)).gradient(n.B)
try:
    force.claim(-2 * (n.Lambda**2 - n.B * n.M * n.Lambda))
except ValueError as problem:
    print(problem)

# %% [markdown]
# ## The right one
# **M** stands on the left of **B**, since the average over the context is taken on that side:

# %%
right = force.factor().claim(-2 * (n.Lambda**2 - n.M * n.B * n.Lambda))
right

# %% [markdown]
# Both formulas vanish at the same map, **M**⁻¹**Λ**, since **M** commutes with **Λ**: where descent ends does not tell them
# apart. The way there does, from a **B** that commutes with neither:

# %%
covariance, context = np.array([[1.0, 0.9], [0.9, 1.5]]), 3
moment = compile_expression(expect(n.Lambda_hat**2), (n.Lambda, n.N))(
    covariance, context
)
at = compile_expression(loss.right, (n.B, n.Lambda, n.N))
claims = {
    "M B": -2 * (n.Lambda**2 - n.M * n.B * n.Lambda),
    "B M": -2 * (n.Lambda**2 - n.B * n.M * n.Lambda),
}
losses = {}
for name, claim in claims.items():
    slope = compile_expression(claim, (n.B, n.Lambda, n.M))
    effective, losses[name] = np.array([[0.0, 1.0], [-1.0, 0.0]]), []
    for _ in range(200):
        losses[name].append(float(at(effective, covariance, context)))
        effective = effective - 0.02 * slope(effective, covariance, moment)
with themed() as theme:
    picture, axes = canvas(theme, 6.4, 3.0)
    for (name, values), color in zip(losses.items(), SERIES, strict=False):
        axes.plot(values, color=color, label=f"along {name}")
    axes.set(xlabel="step", ylabel=LOSS)
    axes.legend(frameon=False)
picture

# %% [markdown]
# In the text of the proof it is one exchange, and then every line holds:

# %%
proof.write_text(
    proof.read_text().replace(r"\mathbf B \mathbf M", r"\mathbf M \mathbf B")
)
code = main(["prove", str(proof), "--strict"])

# %% [markdown]
# ## Into a paper
# The derivation is LaTeX, and what it writes is read back and judged:

# %%
print(right.latex())

# %%
again = proof.with_name("paper.tex")
again.write_text(right.latex())
reread = main(["prove", str(again)])

# %% [markdown]
# ## Check

# %%
assert code == reread == 0  # every line of the right proof holds
assert losses["M B"][-1] < losses["B M"][-1]
assert all(verdict.status != "fails" for verdict in right.check())
