"""The algorithm as published, and its forerunner."""
