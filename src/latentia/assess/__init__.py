"""How sure answers are, and whether the model fits."""
