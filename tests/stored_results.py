"""Real results, as the suite wrote them, for tests that read results."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from places import DATA

from modelzoo.records.run import Result
from modelzoo.results import store

STORED = sorted((DATA / "results").iterdir())
"""``early-*`` are of the first versions of the suite, which recorded less; private paths are replaced."""


def unpacked(stored: Path, directory: Path) -> Path:
    """A copy of ``stored`` in ``directory``, decompressed if it is compressed."""
    data = stored.read_bytes()
    path = directory / stored.name.replace(".gz", "")
    path.write_bytes(gzip.decompress(data) if stored.suffix == ".gz" else data)
    return path


def name(stored: Path) -> str:
    return stored.name.split(".")[0]


def written(result: Result, directory: Path) -> Any:
    """``result`` as the JSON data in its file."""
    store.write(result, directory / "r.json")
    return json.loads((directory / "r.json").read_text())


def damage(data: Any, place: tuple[str | int, ...], value: Any) -> None:
    """Put ``value`` in its place."""
    *outer, last = place
    for step in outer:
        data = data[step]
    data[last] = value
