"""Real results, as the suite wrote them, for tests that read results."""

from __future__ import annotations

import gzip
from pathlib import Path

from places import DATA

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
