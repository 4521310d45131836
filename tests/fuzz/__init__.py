"""Hostile inputs by the thousand: the right kind of number, or an error of ours; nothing else.

A case is a function of a `random.Random` that is seeded by the kind and number of the case, so
that each can be repeated. Hypothesis draws the numbers of the short form (`test_fuzz.py`); the
long form (`python -m tests.fuzz`) counts them.
"""
