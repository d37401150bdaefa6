"""Time this workload: python3 performance.py [--bf16] [--profiling]; --help tells the rest."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a checkout, nothing installed

from modelzoo.cli import performance

if __name__ == "__main__":
    performance(__file__)
