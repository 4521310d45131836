"""Public data: found where they lie, checked, never fetched here."""

import dataclasses
import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import latentia as lt
from latentia.errors import DatasetError, UnknownNameError
from latentia.reproduce import datasets

HERE = datasets.available(["pendigits", "splice", "nltcs"])
needs_data = pytest.mark.skipif(not HERE, reason="the data are not on this machine")


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(url: str) -> bytes:
        raise OSError("no network in tests")

    monkeypatch.setattr(datasets, "fetch", refuse)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with nothing but an empty cache."""
    monkeypatch.setattr(datasets, "folders", lambda: [tmp_path / "cache"])
    return tmp_path / "cache"


@needs_data
def test_pendigits_has_the_parts_of_the_paper() -> None:
    digits = lt.datasets.pendigits()
    assert {k: p.stop - p.start for k, p in digits.parts.items()} == {
        "train": 7000,
        "valid": 494,
        "test": 3498,
    }
    assert digits.names[:3] == ("x0", "y0", "x1")
    assert digits.target is not None
    assert sorted(set(digits.target.tolist())) == list(range(10))
    columns, target = digits.part("test")
    assert len(columns["y7"]) == 3498 == len(target if target is not None else ())
    assert digits.data.min() == 0
    assert digits.data.max() == 100


@needs_data
def test_splice_has_sixty_positions_and_three_classes() -> None:
    genes = lt.datasets.splice()
    assert genes.target is not None
    assert len(genes) == 3190
    assert len(genes.names) == 60
    names, counts = np.unique(genes.target, return_counts=True)
    assert dict(zip(names.tolist(), counts.tolist(), strict=True)) == {
        "EI": 767,
        "IE": 768,
        "N": 1655,
    }


@needs_data
def test_nltcs_has_its_standard_split() -> None:
    survey = lt.datasets.nltcs()
    assert [len(survey.part(p)[0]["Q1"]) for p in ("train", "valid", "test")] == [16181, 2157, 3236]
    assert set(np.unique(survey.data).tolist()) == {0, 1}
    assert "16 columns" in repr(survey)
    with pytest.raises(UnknownNameError, match="train"):
        survey.part("all")


@needs_data
def test_a_dataset_cannot_be_changed() -> None:
    survey = lt.datasets.nltcs()
    with pytest.raises(dataclasses.FrozenInstanceError):
        survey.name = "x"  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        survey.columns["Q1"][0] = 3


@pytest.mark.parametrize("name", ["pendigits", "splice", "nltcs"])
def test_absent_data_name_the_ways_to_get_them(alone: Path, name: str) -> None:
    with pytest.raises(
        DatasetError, match=r"LATENTIA_DATA.*again with a network.*https://"
    ) as told:
        getattr(lt.datasets, name)()
    assert "no network in tests" in str(told.value)
    assert isinstance(told.value, OSError)


def test_a_wrong_file_is_refused(alone: Path) -> None:
    (alone / "nltcs").mkdir(parents=True)
    (alone / "nltcs" / "nltcs.train.data").write_text("0,1\n")
    with pytest.raises(DatasetError, match="SHA-256"):
        lt.datasets.nltcs()


def test_a_download_is_checked_and_kept(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published = b"EI,  NAME-1,   " + b"ACGT" * 15 + b"\nN, X, " + b"TTTT" * 15 + b"\n"
    table = datasets._splice_csv(published)
    (known,) = datasets.FILES["splice"]
    swapped = table.splitlines()[:1] + table.splitlines()[:0:-1]  # the rows in another order
    file = dataclasses.replace(known, checksum=datasets.digest(b"\r\n".join(swapped), True))
    monkeypatch.setitem(datasets.FILES, "splice", (file,))
    monkeypatch.setattr(datasets, "fetch", lambda url: published)
    genes = lt.datasets.splice()
    assert genes.target is not None
    assert genes.target.tolist() == ["EI", "N"]
    assert (alone / "splice" / "splice.csv").read_bytes() == table
    monkeypatch.setattr(datasets, "fetch", lambda url: b"")  # from now on it comes from the cache
    assert len(lt.datasets.splice()) == 2


def test_only_the_environment_and_the_cache_are_searched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("LATENTIA_DATA", raising=False)
    assert datasets.folders() == [tmp_path / "cache" / "latentia"]
    monkeypatch.setenv("LATENTIA_DATA", str(tmp_path))
    assert datasets.folders() == [tmp_path, tmp_path / "cache" / "latentia"]


def test_the_old_name_is_the_same_module() -> None:
    """`latentia.datasets` moved to `latentia.reproduce.datasets`; both for one release."""
    assert importlib.import_module("latentia.datasets") is datasets is lt.datasets


def test_experiments_are_loaded_by_those_who_run_them_only() -> None:
    code = "import sys, latentia; print(*(m for m in sys.modules if 'latentia.reproduce.' in m))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not run.stdout.split()
