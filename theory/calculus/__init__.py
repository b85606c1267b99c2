"""Operations on trace polynomials: derivatives, substitution, rewriting, eigenvectors, entries, exact equality."""
