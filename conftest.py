"""Loads the package before pytest collects its doctests.

Asked for a single file, as in `pytest src/latentia/structure/graph.py`, pytest would otherwise run
that file twice, and the two copies of a class are different classes.
"""

import latentia

for name in latentia.__all__:
    getattr(latentia, name)  # names are loaded when they are asked for

# scripts, one of which needs mkdocstrings; and an old name, which stands for another module
collect_ignore_glob = ["docs/*.py", "src/latentia/datasets.py"]
