"""Operations on trace polynomials: derivatives, substitution, rewriting, eigenvectors, entries, exact equality."""

from .derivatives import derivative, gradient, hessian_form
from .entrywise import explicit
from .equality import equal, require_zero, vanishes
from .rewriting import as_block_matrix, block_product, block_transpose, multiplied_out, rewrite
from .spectral import along, eigenvalue, indicator, moment, on_and_off, over_directions, summand
from .substitution import collect, substitute
