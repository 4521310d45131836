"""Hostile inputs by the thousand: the right kind of number, or an error of ours; nothing else.

A case is a function of a source of randomness with the methods of `random.Random`. Hypothesis gives
it one whose choices it can shrink (tests); the long form (`python -m tests.fuzz`) gives it a
`random.Random` of the kind and number of the case, so that each can be repeated on its own.
"""
