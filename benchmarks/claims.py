"""What a benchmark claims, and tables of plain text."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """One goal, and whether it was reached; ``None`` if the data cannot show it."""

    what: str
    holds: bool | None

    def __str__(self) -> str:
        return f"{'not shown' if self.holds is None else 'holds' if self.holds else 'DOES NOT HOLD'}: {self.what}"


def conclude(claims: Sequence[Claim]) -> int:
    """Print the claims; return the exit code, 1 unless all of them hold."""
    for claim in claims:
        print(claim)
    return 0 if all(claim.holds for claim in claims) else 1


def some_of(known: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """Return the type of an option that names some rows of a benchmark: ``a,b``."""

    def parse(text: str) -> tuple[str, ...]:
        found = tuple(text.split(","))
        if unknown := sorted(set(found) - set(known)):
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: choose from {', '.join(known)}")
        return found

    return parse


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows of text in aligned columns, the first one to the left."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = []
    for row in [header, *rows]:
        first, *others = (cell.rjust(width) for cell, width in zip(row, widths))
        lines.append("  ".join([first.strip().ljust(widths[0]), *others]).rstrip())
    return "\n".join(lines)


def percent(fraction: float) -> str:
    """A fraction in percent, to one decimal."""
    return f"{100 * fraction:.1f} %"
