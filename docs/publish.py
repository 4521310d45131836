"""Takes a finished run into docs/experiments: python docs/publish.py FOLDER NAME COMMAND.

Figures and CSV are copied; tables go to NAME-tables.md, which the page of NAME includes.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from latentia.reproduce.pages import Sheet, sheets, surroundings
from latentia.reproduce.running import reproduce

HERE = Path(__file__).parent / "experiments"


def in_markdown(sheet: Sheet) -> str:
    head = "| " + " | ".join(sheet.head) + " |\n|" + "---|" * len(sheet.head)
    lines = ["| " + " | ".join(cell or "–" for cell in line) + " |" for line in sheet.lines]
    return f"**{sheet.title}**\n\n{head}\n" + "\n".join(lines) + "\n"


def main(folder: Path, name: str, command: str) -> None:
    (outcome,), _ = reproduce([name], folder, quick="--quick" in command, only_kept=True)
    for picture in sorted(folder.glob(f"{name}-*.svg")):
        shutil.copy(picture, HERE / picture.name)
    shutil.copy(folder / f"{name}.csv", HERE / f"{name}.csv")
    facts = surroundings(command)
    told = "; ".join(f"{key} {value}" for key, value in facts.items() if key != "command")
    text = "\n".join(in_markdown(sheet) for sheet in sheets(outcome))
    origin = f"Made by `{command}`, seed {outcome.settings['seed']}: {told}.\n"
    (HERE / f"{name}-tables.md").write_text(f"{text}\n{origin}", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
