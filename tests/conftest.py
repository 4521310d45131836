"""Hypothesis draws the same examples everywhere, unless --hypothesis-profile=explore."""

from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=1000, deadline=None)
settings.load_profile("ci")
