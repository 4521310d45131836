"""Structure from data: which columns hang together, and the latents that tie them (design 15)."""
