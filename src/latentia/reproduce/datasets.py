"""Public data of the experiments: pen digits, splice junctions, NLTCS.

A set is looked for in the folder that LATENTIA_DATA names and in a cache of the user; else it is
fetched from its public source into that cache, and its checksum compared.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias, final

import numpy as np

from latentia.errors import DatasetError, UnknownNameError
from latentia.typing import CellArray
from latentia.whole_file import whole_file

__all__ = ["Dataset", "nltcs", "pendigits", "splice"]

Column: TypeAlias = CellArray

UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
DEBD = "https://raw.githubusercontent.com/arranger1044/DEBD/master/datasets"
VALIDATION = 494  # the last rows of pendigits.tra, as in the paper
PATIENCE = 60  # seconds for one download


@final
@dataclass(frozen=True, slots=True)
class File:
    """One file of a set: its name, where it is published, and the SHA-256 of its bytes."""

    name: str
    url: str
    checksum: str
    convert: Callable[[bytes], bytes] | None = None  # from the published form to ours
    sort: bool = False  # the checksum is that of the sorted lines


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Dataset:
    """Columns by name, the target if there is one, and the rows of each part."""

    name: str
    columns: Mapping[str, Column]
    target: Column | None
    parts: Mapping[str, slice]  # such as train, valid, test
    description: str

    def __post_init__(self) -> None:
        lengths = {len(column) for column in self.columns.values()}
        lengths |= set() if self.target is None else {len(self.target)}
        if len(lengths) != 1:
            raise DatasetError(f"the columns of {self.name} have different lengths: {lengths}.")
        for column in (*self.columns.values(), *([] if self.target is None else [self.target])):
            column.setflags(write=False)
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))
        object.__setattr__(self, "parts", MappingProxyType(dict(self.parts)))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.columns)

    @property
    def data(self) -> Column:
        """All columns side by side: (rows, columns)."""
        return np.column_stack(list(self.columns.values()))

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def part(self, name: str) -> tuple[dict[str, Column], Column | None]:
        """Columns and target of one part, by its name."""
        if name not in self.parts:
            raise UnknownNameError(f"part of {self.name}", name, self.parts)
        rows = self.parts[name]
        target = None if self.target is None else self.target[rows]
        return {key: column[rows] for key, column in self.columns.items()}, target

    def __repr__(self) -> str:
        parts = ", ".join(f"{k} {v.stop - v.start:,}" for k, v in self.parts.items())
        return (
            f"{self.name}: {len(self):,} rows × {len(self.names)} columns"
            f"{f' ({parts})' if parts else ''}\n{self.description}"
        )


def pendigits() -> Dataset:
    """Pen-based recognition of handwritten digits: eight pen points (x_t, y_t) in 0..100, a digit.

    Parts as in the paper: 7,000 rows to train, 494 to validate, 3,498 of other writers to test.
    """
    tables = [_numbers(_read(file), 17, file.name) for file in FILES["pendigits"]]
    table, first = np.concatenate(tables), len(tables[0])
    names = [f"{axis}{t}" for t in range(8) for axis in "xy"]
    parts = {
        "train": slice(0, first - VALIDATION),
        "valid": slice(first - VALIDATION, first),
        "test": slice(first, len(table)),
    }
    return Dataset(
        "pendigits",
        {name: table[:, i].astype(float) for i, name in enumerate(names)},
        table[:, 16].copy(),
        parts,
        "Alpaydin and Alimoglu, Pen-Based Recognition of Handwritten Digits, UCI Machine Learning "
        "Repository, doi 10.24432/C5MG6K.",
    )


def splice() -> Dataset:
    """Primate splice junctions: 60 positions of a sequence over A, C, G, T (and a few unclear)."""
    (file,) = FILES["splice"]
    head, *rows = csv.reader(io.StringIO(_read(file).decode("utf-8")))
    if len(head) != 61 or any(len(row) != 61 for row in rows):
        raise DatasetError(f"{file.name} should have 60 positions and a class in every line.")
    table = np.array(rows, dtype=str)
    return Dataset(
        "splice",
        {name: table[:, i].copy() for i, name in enumerate(head[:-1])},
        table[:, 60].copy(),
        {},
        "Molecular Biology (Splice-junction Gene Sequences), UCI Machine Learning Repository: "
        "EI (exon to intron), IE (intron to exon) or N (neither) at the middle of the sequence.",
    )


def nltcs() -> Dataset:
    """National Long Term Care Survey: 16 yes-or-no answers on what a person can do unaided."""
    tables = [_numbers(_read(file), 16, file.name) for file in FILES["nltcs"]]
    ends = np.cumsum([0, *map(len, tables)]).tolist()
    parts = {
        name: slice(a, b)
        for name, a, b in zip(("train", "valid", "test"), ends[:-1], ends[1:], strict=True)
    }
    table = np.concatenate(tables)
    return Dataset(
        "nltcs",
        {f"Q{i + 1}": table[:, i].copy() for i in range(16)},
        None,
        parts,
        "National Long Term Care Survey, in the split of the density-estimation suite of Lowd and "
        "Davis.",
    )


# --- files ----------------------------------------------------------------------------------------


def _splice_csv(published: bytes) -> bytes:
    """UCI's lines `EI, name, sequence` as a table with a line of names."""
    head = ",".join([f"POS{i + 1}" for i in range(60)] + ["Class"])
    lines = [head]
    for line in published.decode("ascii").splitlines():
        if line.strip():
            label, _, sequence = (word.strip() for word in line.split(","))
            lines.append(",".join([*sequence, label]))
    return ("\n".join(lines) + "\n").encode()


FILES: dict[str, tuple[File, ...]] = {
    "pendigits": (
        File(
            "pendigits.tra",
            f"{UCI}/pendigits/pendigits.tra",
            "e2b9eb9f0d0467e2b64a4816a3420edf2b8043447576f4b84337aba44a9f97d3",
        ),
        File(
            "pendigits.tes",
            f"{UCI}/pendigits/pendigits.tes",
            "8bd03229c5c5291fefe43e45465dd948d2645bf23328b9d993e0b777666b2015",
        ),
    ),
    "splice": (
        File(
            "splice.csv",
            f"{UCI}/molecular-biology/splice-junction-gene-sequences/splice.data",
            "2bb6aa9c33a8a48a3594e81947db19c01a9234b5a304a0ee577637e5555647d9",
            convert=_splice_csv,
            sort=True,  # copies of the table differ in the order of their rows
        ),
    ),
    "nltcs": (
        File(
            "nltcs.train.data",
            f"{DEBD}/nltcs/nltcs.train.data",
            "e547a7aedad1dd2f7177030881ab1b92c7e24ae5464c71a0f1f89daecaf52b30",
        ),
        File(
            "nltcs.valid.data",
            f"{DEBD}/nltcs/nltcs.valid.data",
            "93bbbf5c6febdc9bc6e5b5bfab636f4dc0685ab2896d24b23dd267794c3bfcf6",
        ),
        File(
            "nltcs.test.data",
            f"{DEBD}/nltcs/nltcs.test.data",
            "f9ffa6b74b27dc03bee3203d157ee31079e80b13be40d0c0093d635c25aed523",
        ),
    ),
}


def folders() -> list[Path]:
    """Where data are looked for, in this order; the last is the cache that downloads go to."""
    given = os.environ.get("LATENTIA_DATA")
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return [*([Path(given)] if given else []), Path(caches) / "latentia"]


def digest(content: bytes, sort: bool) -> str:
    """SHA-256 of the bytes, or of the sorted lines whatever ends them."""
    if sort:
        content = b"\n".join(sorted(line for line in content.splitlines() if line))
    return hashlib.sha256(content).hexdigest()


def fetch(url: str) -> bytes:
    """The bytes at a public address."""
    from urllib.request import urlopen  # slow to load, and hardly ever needed

    with urlopen(url, timeout=PATIENCE) as answer:
        return bytes(answer.read())


def _read(file: File) -> bytes:
    folder = next(key for key, files in FILES.items() if file in files)
    for place in folders():
        path = place / folder / file.name
        if path.is_file():
            return _checked(path.read_bytes(), file, str(path))
    try:
        content = fetch(file.url)
    except OSError as error:
        raise DatasetError(_ways(folder, file, str(error))) from None
    content = _checked(file.convert(content) if file.convert else content, file, file.url)
    _keep(folders()[-1] / folder / file.name, content)
    return content


def _checked(content: bytes, file: File, where: str) -> bytes:
    found = digest(content, file.sort)
    if found != file.checksum:
        raise DatasetError(
            f"{where} is not the {file.name} we know: expected SHA-256 {file.checksum[:16]}…, got "
            f"{found[:16]}…. Delete or replace the file; its public source is {file.url}."
        )
    return content


def _keep(path: Path, content: bytes) -> None:
    """Into the cache, at once or not at all; a cache that cannot be written is no error."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as file:
            file.write(content)
    except OSError:
        return


def _ways(folder: str, file: File, reason: str) -> str:
    looked = ", ".join(str(place / folder) for place in folders())
    return (
        f"the file {file.name} is not here and could not be fetched ({reason}). Looked in {looked}."
        f" Ways to get it: set LATENTIA_DATA to a folder that holds {folder}/{file.name}; or run "
        f"again with a network; or fetch {file.url} yourself."
    )


def _numbers(content: bytes, width: int, name: str) -> CellArray:
    """Comma-separated integers without a header: (rows, width)."""
    table = np.loadtxt(io.BytesIO(content), delimiter=",", dtype=np.int64, ndmin=2)
    if table.shape[1] != width:
        raise DatasetError(f"{name} should have {width} numbers in a line, got {table.shape[1]}.")
    return table


def available(names: Sequence[str]) -> bool:
    """Are all files of these sets on this machine?"""
    return all(
        any((place / name / file.name).is_file() for place in folders())
        for name in names
        for file in FILES[name]
    )
