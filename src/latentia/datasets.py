"""`latentia.reproduce.datasets` under the name it had before it moved, for one release."""

from latentia.reproduce.datasets import *  # noqa: F403
