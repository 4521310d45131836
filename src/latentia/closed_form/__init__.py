"""Sums to operators, in closed form."""
