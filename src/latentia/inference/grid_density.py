"""The old home of `data.columns.masses`, for those who still import from here."""

from __future__ import annotations

from latentia.data.columns.masses import cdf as cdf
from latentia.data.columns.masses import cell_values as cell_values
from latentia.data.columns.masses import densities as densities
from latentia.data.columns.masses import draw as draw
from latentia.data.columns.masses import interval_likelihood as interval_likelihood
from latentia.data.columns.masses import means as means
from latentia.data.columns.masses import quantiles as quantiles
from latentia.data.columns.masses import spreads as spreads
