"""What a derivation is, how an equation is registered, and both as documents."""
