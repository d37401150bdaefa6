"""Time this workload: python3 performance.py [--bf16] [--profiling]; see --help for all options."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # so that it runs from a checkout without installation

from modelzoo.cli import performance

if __name__ == "__main__":
    performance(__file__)
