"""The file around a record: head, JSON, arrays; written at once or not at all, read with suspicion.

    magic (8) | version (4) | bytes of JSON (4) | bytes of arrays (8) | SHA-256 (32) | JSON | arrays

Nothing is compressed, so that reading never needs more memory than the file is long (and JSON up to
a limit); every length is checked against the length of the file before anything is read.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
import struct
from collections.abc import Sequence
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeAlias

import numpy as np

from latentia.errors import LatentiaError, StoreError
from latentia.store.array_table import Fetch
from latentia.store.column_record import leaves_with_atoms, newer_columns
from latentia.store.model_record import NEWER
from latentia.store.plain import text
from latentia.store.record_kinds import reader_of, writer_of
from latentia.store.structure_record import ordered_parents
from latentia.typing import Array, FilePath, Given
from latentia.version import LIBRARY
from latentia.whole_file import whole_file

if TYPE_CHECKING:
    from latentia.data.moments import Moments
    from latentia.model.classifier import LatentClassifier
    from latentia.model.frozen_model import FrozenModel
    from latentia.model.latent_model import LatentModel
    from latentia.sequences.sequence_model import SequenceModel

    Stored: TypeAlias = LatentModel | LatentClassifier | SequenceModel | FrozenModel | Moments

MAGIC = b"\x89LAT\r\n\x1a\n"  # as PNG does it: a transfer as text damages it
VERSION = 5
HEAD = struct.Struct("<8sIIQ32s")
SIGNED = HEAD.size - 32  # the checksum covers all but itself
LARGEST_FILE = 2**31
LARGEST_JSON = 2**26
MOST_VALUES = 2**22  # in the JSON; as Python objects these take up to 300 MB
DEEPEST = 64
CHUNK = 2**20

FOREIGN = {
    b"\x89LAT": "a model file that was damaged in a transfer as text",
    b"PK\x03\x04": "a zip archive",
    b"\x89PNG": "a PNG image",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"\x1f\x8b": "a gzip file",
    b"\x80": "perhaps a pickle, which latentia never opens",
    b"{": "perhaps a JSON file",
}

STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
ALL_BUT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


# -- writing ---------------------------------------------------------------------------------------


def save(model: Stored, path: str | os.PathLike[str]) -> None:
    """Write a fitted model or classifier, a frozen model or moments to one file, all at once.

    Labels may be text, numbers, booleans, and tuples and frozensets of these. A model that could
    not be read again is not written.
    """
    name = _path_name(path)
    _check_ending(name)
    record, arrays = writer_of(model)(model)
    encoded = _encode(record)
    parts = [np.ascontiguousarray(array, dtype="<f8") for array in arrays]
    _rebuild(encoded, lambda shapes: _matching(parts, shapes), "Fit the model again.")
    size = sum(part.nbytes for part in parts)
    if HEAD.size + len(encoded) + size > LARGEST_FILE:
        raise StoreError(
            f"the model would need {size:,} bytes; at most {LARGEST_FILE:,} are kept in a file. "
            "Learn it with fewer latent states, or use pickle."
        )
    body = [memoryview(encoded), *(part.data.cast("B") for part in parts)]
    version = _version(record)
    signed = HEAD.pack(MAGIC, version, len(encoded), size, b"")[:SIGNED]
    try:
        _write_at_once(name, [signed, _digest([signed, *body]), *body])
    except OSError as error:
        raise StoreError(
            f"{name}: cannot be written ({error.strerror or error}). "
            "Does the folder exist, may you write there, and is there room?"
        ) from error


def _check_ending(name: str) -> None:
    """Endings of other tools' files are theirs: nobody would find out what is inside."""
    from latentia.formats.interchange import ENDINGS

    ending = Path(name.removesuffix(".gz")).suffix.lower()
    if ending in ENDINGS:
        raise StoreError(
            f"{name}: {ending} is the ending of a file that other tools read, and model.save "
            "writes latentia's own. Use lt.write(model, path) for the graph and its tables; or "
            "another ending, such as .latentia, to keep all of the model."
        )


def _version(record: dict[str, Given]) -> int:
    """The oldest that can say it: what older readers can read, they may."""
    if record["kind"] == "SequenceModel":
        return 5
    states = record.get("states", ())
    parts = (record, *record.get("models", ()))
    newer = any(newer_columns(x.get("states", ())) for x in parts) or leaves_with_atoms(parts)
    later = (
        "own",
        "beside",
        "pieces",
        "nameless",
        "pool",
        "arrows",
        "logits",
        "class_logit",
        "no_logits",
    )
    tables = any(name in record for name in later)
    named = any(name in record.get("parameters", ()) for name in NEWER)
    named = named or "own" in record.get("replicates", ())
    if (
        newer or named or tables or ordered_parents(record)
    ):  # else older readers would misread grids, leaves and axes
        return 5
    if record["kind"] == "LatentClassifier":
        return 4
    if "replicates" in record or len(record.get("operators", {}).get("kernel", ())) > 4:
        return 4
    if "choice" in record or any(isinstance(each, dict) for each in states):
        return 3
    old = "operators" in record and "tables" not in record["operators"]
    return 1 if old else 2


def _encode(record: dict[str, Given]) -> bytes:
    written = {"library": LIBRARY, **record}
    try:
        encoded = json.dumps(written, allow_nan=False, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError) as error:
        raise StoreError(f"the model cannot be kept in a file: {error}.") from error
    return encoded + b" " * (-len(encoded) % 8)


def _matching(parts: Sequence[Array], shapes: Sequence[tuple[int, ...]]) -> Sequence[Array]:
    if [part.shape for part in parts] != list(shapes):
        raise StoreError("the operators do not have the shapes of their plan.")
    return parts


def _digest(parts: Sequence[bytes | memoryview]) -> bytes:
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.digest()


def _write_at_once(name: str, parts: Sequence[bytes | memoryview]) -> None:
    """Into a new file, which then takes its place; or nothing at all."""
    mode = os.stat(name).st_mode if os.path.exists(name) else None
    if mode is not None and not stat.S_ISREG(mode):
        raise StoreError(f"{name}: expected a file to write to, got {_what_is(mode)}.")
    with whole_file(name) as file:
        for part in parts:
            file.write(part)


# -- reading ---------------------------------------------------------------------------------------


def load(path: str | os.PathLike[str]) -> Given:
    """What `save` wrote: a model, classifier, frozen model or moments; the same bit for bit.

    Nothing in the file is ever run. Whatever is wrong with it ends in a StoreError.
    """
    name = _path_name(path)
    try:
        mode = os.stat(name).st_mode
        if not stat.S_ISREG(mode):  # opening a pipe would wait for ever
            raise StoreError(f"expected a model file, got {_what_is(mode)}.")
        with open(name, "rb") as file:
            return _read(file)
    except StoreError as error:
        raise StoreError(f"{name}: {error}") from error.__cause__
    except OSError as error:
        raise StoreError(
            f"{name}: cannot be read ({error.strerror or error}). Is the path right?"
        ) from error
    except MemoryError as error:
        raise StoreError(f"{name}: the model does not fit into memory.") from error


def _read(file: BufferedReader) -> Stored:
    size = os.fstat(file.fileno()).st_size
    head = file.read(HEAD.size)
    json_size, array_size = _check_head(head, size)
    if _digest_of_file(file, head[:SIGNED]) != head[SIGNED:]:
        raise StoreError(
            "the file is damaged: its content does not match its checksum. Copy it again from "
            "where it came, or save the model again."
        )
    file.seek(HEAD.size)
    encoded = file.read(json_size)
    return _rebuild(
        encoded,
        partial(_read_arrays, file, array_size),
        "The file was altered or made by a faulty program; save the model again.",
    )


def _check_head(head: bytes, size: int) -> tuple[int, int]:
    """Bytes of JSON and of arrays, if the file is ours, of a known version and whole."""
    if not head.startswith(MAGIC):
        if size < HEAD.size and MAGIC.startswith(head[:8]) and head:
            raise StoreError(_truncated(HEAD.size, size))
        known = [what for start, what in FOREIGN.items() if head.startswith(start)]
        got = known[0] if known else "something else" if head else "an empty file"
        raise StoreError(f"expected a model file of latentia, got {got}. Is the path right?")
    if size < HEAD.size:
        raise StoreError(_truncated(HEAD.size, size))
    _, version, json_size, array_size, _ = HEAD.unpack(head)
    if version > VERSION:
        raise StoreError(
            f"the file has format version {version}, this latentia reads up to {VERSION}. "
            "Update latentia, or save the model with the older one."
        )
    if version < 1:
        raise StoreError(f"the file is damaged: expected format version 1, got {version}.")
    whole = HEAD.size + json_size + array_size
    if json_size > LARGEST_JSON or whole > LARGEST_FILE:
        raise StoreError(
            f"the file claims {json_size:,} bytes of JSON and {array_size:,} of arrays; at most "
            f"{LARGEST_JSON:,} and {LARGEST_FILE:,} in all are read. It is damaged or hostile."
        )
    if size != whole:
        raise StoreError(_truncated(whole, size))
    return json_size, array_size


def _truncated(expected: int, got: int) -> str:
    what = "truncated" if got < expected else "damaged"
    return f"the file is {what}: expected {expected:,} bytes, got {got:,}. Copy it again."


def _digest_of_file(file: BufferedReader, signed: bytes) -> bytes:
    found = hashlib.sha256(signed)
    while block := file.read(CHUNK):
        found.update(block)
    return found.digest()


def _read_arrays(file: BufferedReader, size: int, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    needed = sum(8 * math.prod(shape) for shape in shapes)
    if needed != size:
        raise StoreError(f"expected {_count(needed)} bytes of arrays for the plan, got {size:,}.")
    arrays = []
    for shape in shapes:
        array = np.empty(shape, dtype="<f8")
        if file.readinto(array.data.cast("B")) != array.nbytes:
            raise StoreError("the file became shorter while it was read. Try again.")
        arrays.append(array)
    return arrays


def _rebuild(encoded: bytes, fetch: Fetch, advice: str) -> Stored:
    """The model of the JSON; what cannot be is a StoreError, whatever noticed it."""
    try:
        _check_json(encoded)
        record = json.loads(
            encoded.decode("ascii"), object_pairs_hook=_unique, parse_constant=_no_constant
        )
        if not isinstance(record, dict):
            raise StoreError(f"expected a JSON object, got {type(record).__name__}.")
        text(record.pop("library", None))  # for people; any version may have written it
        found: Stored = reader_of(record.get("kind"))(record, fetch)
        return found
    except (
        *(LatentiaError, ValueError, TypeError, LookupError),
        *(AttributeError, ArithmeticError, RecursionError),
    ) as error:
        said = f"{error}"
        short = said if len(said) <= 500 else said[:500] + " …"
        raise StoreError(f"not a valid model: {short} {advice}") from error


def _check_json(encoded: bytes) -> None:
    """Bounded size, number of values and depth, before Python objects are made of it."""
    bare = STRINGS.sub(b"", encoded)
    values = sum(bare.count(mark) for mark in (b",", b"[", b"{"))
    if len(encoded) > LARGEST_JSON or values > MOST_VALUES:
        raise StoreError(
            f"the JSON has {len(encoded):,} bytes and {values:,} values; at most "
            f"{LARGEST_JSON:,} and {MOST_VALUES:,} are read."
        )
    brackets = np.frombuffer(bare.translate(None, ALL_BUT_BRACKETS), dtype=np.int8)
    depth = np.cumsum((brackets & 2) - 1, dtype=np.int32).max(initial=0)  # [ and { have that bit
    if depth > DEEPEST:
        raise StoreError(f"the JSON is nested {depth} deep; at most {DEEPEST} is read.")


def _unique(pairs: list[tuple[str, Given]]) -> dict[str, Given]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise StoreError(f"a field is there twice among {[name for name, _ in pairs]!r:.200}.")
    return found


def _no_constant(name: str) -> NoReturn:
    raise StoreError(f"expected finite numbers, got {name}.")


# -- words -----------------------------------------------------------------------------------------


def _path_name(path: FilePath) -> str:
    try:
        name = os.fsdecode(path)
    except TypeError:
        raise StoreError(f"expected the path of a file, got {type(path).__name__}.") from None
    if not name or "\0" in name:
        raise StoreError(f"expected the path of a file, got {name!r}.")
    return name


def _what_is(mode: int) -> str:
    return "a folder" if stat.S_ISDIR(mode) else "a pipe or device"


def _count(size: int) -> str:
    return f"{size:,}" if size < 10**18 else "absurdly many"
