"""Real results of both formats, as the suite wrote them, for tests that read results."""

from __future__ import annotations

import gzip
from pathlib import Path

from places import DATA

FORMAT_1 = sorted((DATA / "results" / "format1").iterdir())
"""Written before the records were typed; private paths are replaced."""
FORMAT_2 = sorted((DATA / "results" / "format2").iterdir())
"""Written by this suite as they are."""


def unpacked(stored: Path, directory: Path) -> Path:
    """A copy of ``stored`` in ``directory``, decompressed if it is compressed."""
    data = stored.read_bytes()
    path = directory / stored.name.replace(".gz", "")
    path.write_bytes(gzip.decompress(data) if stored.suffix == ".gz" else data)
    return path


def name(stored: Path) -> str:
    """What pytest calls the test of ``stored``."""
    return stored.name.split(".")[0]
