"""What is done to a trace polynomial: derivatives, substitution, rules, eigenvectors, entries, exact equality."""
