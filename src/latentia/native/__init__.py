"""An optional small kernel in C: how it is built, found, and called. Without it numpy does all."""
