"""Where the files of data/ are, and how they are read."""

import json
from functools import cache
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve()
_PLACES = (_HERE.parents[2] / "data", _HERE.parent / "data")  # a checkout; an installed wheel


@cache
def folder() -> Path:
    """The data folder: of the checkout when there is one, else the copy inside the package.

    Raises FileNotFoundError when neither is there.
    """
    for place in _PLACES:
        if (place / "xian.json").is_file():
            return place
    raise FileNotFoundError(
        f"data/xian.json is missing; looked in {' and '.join(str(p) for p in _PLACES)}"
    )


def path(name: str) -> Path:
    """The full path of one file in data/, for example path("xian.json")."""
    return folder() / name


def read_json(name: str) -> Any:
    """The content of one JSON file in data/."""
    return json.loads(path(name).read_text(encoding="utf-8"))
