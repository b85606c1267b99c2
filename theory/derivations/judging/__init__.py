"""How a line is judged: exactly by the algebra, or at random points inside its conditions."""
