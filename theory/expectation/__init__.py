"""Laws of random symbols, Stein's lemma, and ``expect``."""

from .index_sums import sum_over
from .laws import PAPER_LAWS, Fixed, Gaussian, Law, Mixture, SampleCovariance
from .moments import expect
