"""latentia: latent-variable graphical models, learned in closed form from sums over rows."""
