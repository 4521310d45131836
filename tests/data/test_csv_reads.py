"""How often a CSV file is read by a fit: once to survey it, and once to learn."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import latentia as lt
from latentia.data.sources import csv_files, table_rows


@pytest.mark.parametrize(("kept", "reads"), [(table_rows.KEPT_CELLS, [2, 1]), (0, [3, 2])])
def test_blocks_that_were_looked_at_are_learned_from(
    tmp_path: Path, kept: int, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_rows, "KEPT_CELLS", kept)
    opened: list[str] = []

    def counted(file: Any, *others: Any) -> Any:
        opened.append(file.shown)
        return text_tables(file, *others)

    text_tables = csv_files._text_tables
    monkeypatch.setattr(csv_files, "_text_tables", counted)
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=300)
    words = np.array(["no", "yes"])
    lines = [",".join(words[np.where(rng.random(3) < 0.8, own, 1 - own)]) for own in h]
    path = tmp_path / "rows.csv"
    path.write_text("a,b,c\n" + "\n".join(lines) + "\n")
    model = lt.LatentModel("H->a,b,c", {"H": 2}, learner=lt.PBP(refine=False))
    found = []
    for _ in reads:  # the second fit knows the survey
        opened.clear()
        model.fit(str(path))
        found.append(len(opened))
    assert found == reads


def test_ten_text_columns_of_a_million_rows_are_kept() -> None:
    assert table_rows.KEPT_CELLS >= 10**7
