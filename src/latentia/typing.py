"""Aliases of the library.

Those that stand for `Any` say what of the user's comes in there; elsewhere types are told.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

T = TypeVar("T")

Label: TypeAlias = Hashable
Array: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = NDArray[np.signedinteger[Any]]
Floats: TypeAlias = NDArray[np.floating[Any]]  # in single precision, too
Selection: TypeAlias = "slice | Bools | Codes"  # some rows

Cell: TypeAlias = Any  # what stands in a user's table, or what a user says of one of its columns
CellArray: TypeAlias = NDArray[Any]  # cells: numbers, truths, words or objects
TableLike: TypeAlias = Any  # a user's table: a frame of any library, a dict, files, a function …
Given: TypeAlias = Any  # a setting from a user or a file, not checked yet
Facts: TypeAlias = dict[str, Any]  # what is told as JSON
Foreign: TypeAlias = Any  # an object of another library
ByName: TypeAlias = Mapping[Any, T]  # by names of columns: a Mapping's keys take no wider type
Names: TypeAlias = "Label | Sequence[Label]"  # one column, or several
Seed: TypeAlias = "int | np.integer[Any] | np.random.Generator | np.random.RandomState | None"
WeightLike: TypeAlias = "ArrayLike | Label"  # numbers, or the column that holds them
FilePath: TypeAlias = "str | os.PathLike[str]"
