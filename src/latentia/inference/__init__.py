"""Operators and evidence to answers."""
