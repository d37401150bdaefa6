"""Benchmarks are scripts that import each other by name, not a package."""

from __future__ import annotations

import sys

from places import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
