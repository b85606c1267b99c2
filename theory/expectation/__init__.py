"""Laws of random symbols, Stein's lemma, and ``expect``."""
