"""The reference: EM as it stood in 0.1.0, before speed was worked on; run from the history of git.

A frozen copy would be thousands of lines; here it is one commit, unpacked beside the benchmark and
run in a process of its own, so that no later change of the E-step makes it faster or slower.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

COMMIT = "4621ffa88749"
HERE = Path(__file__).resolve().parent

RUN = """
import json, sys, time, warnings
import numpy as np
import latentia as lt
warnings.simplefilter("ignore")
given = np.load(sys.argv[1], allow_pickle=True)
spec = json.loads(str(given["spec"]))
names = spec["columns"]
rows = {name: given["rows"][:, i] for i, name in enumerate(names)}
states = {name: list(range(m)) for name, m in zip(names, spec["states"])}
graph = [tuple(edge) for edge in spec["edges"]]
learner = lt.EM(restarts=10, random_state=0)
model = lt.LatentModel(graph, spec["latents"], learner=learner, state_names=states)
start = time.process_time()
model.fit(rows)
print(json.dumps({"seconds": time.process_time() - start, "from": lt.__file__}))
"""


@cache
def unpacked() -> Path:
    """The library as it stood; its folder lives as long as this process."""
    done = subprocess.run(
        ["git", "archive", "--format=tar", COMMIT, "src"],
        cwd=HERE.parent,
        capture_output=True,
    )
    if done.returncode:
        raise SystemExit(
            f"the reference EM is commit {COMMIT} of this repository's history, which is not here: "
            "fetch the whole history (git fetch --unshallow)."
        )
    folder = Path(tempfile.mkdtemp(prefix="latentia-reference-"))
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def reference_seconds(graph: Any, rows: dict[str, Any]) -> float:
    """Processor seconds of a whole fit by ten restarts, reading included, planning too."""
    columns = list(rows)
    spec = {
        "columns": columns,
        "states": [graph.states[graph.index(name)] for name in columns],
        "edges": [[graph.names[a], graph.names[b]] for a, b in graph.edges],
        "latents": {graph.names[v]: graph.states[v] for v in graph.latent},
    }
    with tempfile.NamedTemporaryFile(suffix=".npz") as file:
        np.savez(file.name, spec=json.dumps(spec), rows=np.column_stack(list(rows.values())))
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        done = subprocess.run(
            [sys.executable, "-c", RUN, file.name],
            env={**os.environ, **threads, "PYTHONPATH": str(unpacked())},
            capture_output=True,
            text=True,
            check=True,
        )
    found = json.loads(done.stdout.splitlines()[-1])
    assert str(unpacked()) in found["from"], found["from"]
    return float(found["seconds"])
