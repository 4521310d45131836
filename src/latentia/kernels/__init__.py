"""Continuous columns by kernel features."""
