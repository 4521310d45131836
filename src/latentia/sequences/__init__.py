"""Repeated structure: sequences of any length, one set of tables."""
