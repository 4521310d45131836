"""Files that an older latentia wrote still load, and give the answers they gave then."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest

import latentia as lt
from latentia.store.file import HEAD

GOLDEN = Path(__file__).parent / "golden"
ANSWERS = json.loads((GOLDEN / "answers.json").read_text(encoding="utf-8"))
replay = runpy.run_path(str(GOLDEN / "write.py"))["replay"]


def unpacked(name: str, folder: Path) -> Path:
    with ZipFile(GOLDEN / "models.zip") as kept:
        return Path(kept.extract(name, folder))


def flat(answer: Any) -> list[float]:
    if isinstance(answer, list):
        return [number for part in answer for number in flat(part)]
    return [float(answer)]


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
def test_old_files_answer_as_they_did(name: str, tmp_path: Path) -> None:
    questions, expected = ANSWERS[name]["questions"], ANSWERS[name]["answers"]
    model = lt.load(unpacked(name, tmp_path))
    found = replay(model, questions)
    assert len(found) == len(expected)
    for got, wanted in zip(found, expected, strict=True):
        # sums of a hundred terms below ten, in another order on another machine
        np.testing.assert_allclose(flat(got), flat(wanted), rtol=1e-12, atol=1e-12)


def content(path: Path) -> tuple[dict[str, Any], bytes]:
    """The record of a file, and the bytes of its arrays."""
    data = path.read_bytes()
    size = HEAD.unpack_from(data)[2]
    return json.loads(data[HEAD.size : HEAD.size + size]), data[HEAD.size + size :]


@pytest.mark.parametrize("name", ANSWERS)
def test_an_old_file_written_again_says_the_same(name: str, tmp_path: Path) -> None:
    """Parameters of learners may have been added since; what was learned is the same bit by bit."""
    old = unpacked(name, tmp_path)
    lt.save(lt.load(old), tmp_path / "again")
    (before, numbers), (after, more) = content(old), content(tmp_path / "again")
    assert more == numbers
    assert after.keys() == before.keys()
    for field in {"kind", "plan", "network", "operators", "frozen", "sums", "replicates"} & {
        *before
    }:
        assert after[field] == before[field], field


def test_every_kind_of_file_is_among_them() -> None:
    kinds = {"LatentModel", "LatentClassifier", "FrozenModel", "Moments"}
    with ZipFile(GOLDEN / "models.zip") as kept:
        heads = [kept.read(name) for name in ANSWERS]
    assert {head[8] for head in heads} == {1, 2, 3, 4}  # versions of the format
    assert all(any(f'"kind":"{kind}"'.encode() in head for head in heads) for kind in kinds)
