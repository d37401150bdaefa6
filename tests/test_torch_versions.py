"""docs/torch-versions.md: the geometric means follow from the cells of its tables."""

from __future__ import annotations

import math
import re

from places import ROOT

PAGE = (ROOT / "docs" / "torch-versions.md").read_text(encoding="utf-8")
CELL = re.compile(r"\*{0,2}([\d.]+)× \[([\d.]+), ([\d.]+)\]\*{0,2}")
QUANTILE = 1.96


def cells() -> dict[str, list[tuple[float, float, float]]]:
    """The speedups over the pinned release with their intervals, by release, of all tables."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    columns: list[str] = []
    for line in PAGE.splitlines():
        parts = [part.strip() for part in line.strip("|").split("|")]
        if line.startswith("| model"):
            columns = [title.rpartition(" ")[2] for title in parts]
        elif columns and line.startswith("|"):
            for release, part in zip(columns, parts):
                match = CELL.fullmatch(part)
                if match:
                    found.setdefault(release, []).append(tuple(map(float, match.groups())))  # type: ignore[arg-type]
        else:
            columns = []
    return found


def geometric_mean(speedups: list[tuple[float, float, float]]) -> tuple[float, float, float]:
    """Their geometric mean with its 95 % interval; each has the variance that its own interval shows."""
    centre = sum(math.log(value) for value, _, _ in speedups) / len(speedups)
    errors = [math.log(high / low) / (2 * QUANTILE) for _, low, high in speedups]
    half = QUANTILE * math.sqrt(sum(error**2 for error in errors)) / len(speedups)
    return math.exp(centre), math.exp(centre - half), math.exp(centre + half)


def test_the_geometric_means_follow_from_the_cells() -> None:
    """Of all cells of a release together, as the page prints them."""
    found = cells()
    assert found
    for release, speedups in found.items():
        value, low, high = geometric_mean(speedups)
        assert f"{release}: {value:.2f}× [{low:.2f}, {high:.2f}]" in PAGE
