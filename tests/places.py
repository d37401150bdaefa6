"""Paths of the repository and of the tests' recorded data."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tests" / "data"
SNAPSHOTS = ROOT / "tests" / "snapshots"
"""What views show, approved by people."""
