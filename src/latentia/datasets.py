"""`latentia.reproduce.datasets` under the name it had before it moved, for one release."""

import sys

from latentia.reproduce import datasets

sys.modules[__name__] = datasets
