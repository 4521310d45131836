"""Rows, columns and sums over rows."""
