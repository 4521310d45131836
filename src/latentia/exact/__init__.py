"""Exact inference with tables."""
