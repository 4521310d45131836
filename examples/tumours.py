"""Real data that everybody understands: 569 breast tumours, measured under the microscope.

The table comes with scikit-learn (Wolberg, Street and Mangasarian, Wisconsin 1993). Each measure is
told as small, medium or large; the diagnosis is kept aside, so that the model never sees it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer

import latentia as lt

MEASURES = ("radius", "texture", "smoothness", "compactness", "concavity", "symmetry")
SIZES = ("small", "medium", "large")
KINDS = ("mild", "middling", "wild")  # what we call them, once we have seen what they look like


def tumours() -> tuple[dict[str, Any], np.ndarray[Any, Any]]:
    """Six measures of every tumour in three sizes, and the diagnoses, which no model sees."""
    found = load_breast_cancer()
    names = [str(name) for name in found.feature_names]
    columns = {}
    for measure in MEASURES:
        values = found.data[:, names.index(f"worst {measure}")]
        thirds = np.quantile(values, [1 / 3, 2 / 3])
        columns[measure] = np.array(SIZES)[np.searchsorted(thirds, values)]
    return columns, np.array(["malignant", "benign"])[found.target]


def tumour_model(columns: dict[str, Any], error_bars: bool = True) -> lt.LatentModel:
    """One hidden kind of tumour tells all measures."""
    model = lt.LatentModel(
        {measure: ["kind"] for measure in MEASURES},
        latents={"kind": len(KINDS)},
        learner=lt.EM(random_state=0),
        state_names={measure: list(SIZES) for measure in MEASURES},
        order_by="concavity",
        name_states={"kind": list(KINDS)},
    )
    return model.fit(columns, error_bars=error_bars)
