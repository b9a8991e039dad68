"""Where the files of data/ are, and how they are read."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from byhand.checks import refuse

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


def model(name: str) -> dict[str, Any]:
    """The row of data/models.json for that model: heads, widths, biases, sources.

    ValueError for a name that is not there.
    """
    rows: dict[str, dict[str, Any]] = {m["model"]: m for m in read_json("models.json")["models"]}
    if not isinstance(name, str) or name not in rows:
        known = ", ".join(rows)
        refuse(
            f"models.json 里没有 {name!r}。有的是：{known}",
            f"no model {name!r}; there are: {known}",
        )
    return rows[name]
