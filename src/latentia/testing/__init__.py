"""Random models and brute force, for your tests too."""

from latentia.testing.random_models import *  # noqa: F403
