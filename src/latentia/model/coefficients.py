"""Coefficients: what covariates do to the classes of a latent, ± errors, and tests."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from latentia.assess.report import aligned
from latentia.linear_algebra import symmetric_inverse
from latentia.spelling import printable
from latentia.typing import Array, Cell, Codes, Foreign, Label

INTERCEPT = "(intercept)"


@final
@dataclass(frozen=True, slots=True)
class Coefficients:
    """log P(class c | x) / P(class 0 | x) = Σ values[c] · x, the first of x being 1."""

    latent: Label
    classes: tuple[Cell, ...]
    covariates: tuple[str, ...]  # the intercept first
    values: Array  # (classes, covariates); zeros for the first class
    covariance: Array  # of all but the first class

    @property
    def errors(self) -> Array:
        """Standard errors, (classes, covariates)."""
        found = np.zeros(self.values.shape)
        variance = np.maximum(np.diag(self.covariance), 0.0)
        found[1:] = np.sqrt(variance).reshape(found[1:].shape)
        return found

    def renumbered(self, order: Codes) -> Coefficients:
        """Of classes that are numbered in another order, against the one that is first then."""
        classes, width = self.values.shape
        B = np.eye(classes)[order] - np.eye(classes)[order[0]]
        T = np.kron(B[1:, 1:], np.eye(width))
        values = self.values[order] - self.values[order[0]]
        return replace(self, values=values, covariance=T @ self.covariance @ T.T)

    def test(self, covariate: str) -> tuple[float, int, float]:
        """χ² of a covariate having nothing to do with the classes, degrees of freedom, and p."""
        from scipy.stats import chi2 as law

        j = self.covariates.index(covariate)
        width = len(self.covariates)
        kept = [c * width + j for c in range(len(self.classes) - 1)]
        V, b = self.covariance[np.ix_(kept, kept)], self.values[1:, j]
        chi2 = float(b @ symmetric_inverse(V) @ b)
        return chi2, len(kept), float(law.sf(chi2, len(kept)))

    def to_dict(self) -> list[dict[str, Cell]]:
        """One dict for each class but the first, and covariate."""
        found, errors = [], self.errors
        for c, label in enumerate(self.classes[1:], 1):
            for j, name in enumerate(self.covariates):
                value, error = float(self.values[c, j]), float(errors[c, j])
                z = value / error if error > 0 else math.copysign(math.inf, value)
                found.append(
                    {
                        str(self.latent): label,
                        "covariate": name,
                        "estimate": value,
                        "error": error,
                        "z": z,
                        "p_value": math.erfc(abs(z) / math.sqrt(2.0)),
                        "odds_ratio": math.exp(min(value, 700.0)),
                    }
                )
        return found

    def to_frame(self) -> Foreign:
        """One row for each class but the first, and covariate, as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(self.to_dict())

    def __repr__(self) -> str:
        rows = [(printable(self.latent), "covariate", "estimate", "± error", "z", "p", "odds")]
        for row in self.to_dict():
            rows.append(
                (
                    printable(row[str(self.latent)]), printable(row["covariate"]),
                    f"{row['estimate']:.4f}", f"{row['error']:.4f}", f"{row['z']:.2f}",
                    f"{row['p_value']:.3g}", f"{row['odds_ratio']:.3g}",
                )
            )  # fmt: skip
        head = f"log odds against {printable(self.latent)}={self.classes[0]}"
        return "\n".join([head, *aligned(rows)])
