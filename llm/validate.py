"""Judge the predictions against fp32: python3 validate.py [--bf16] [--data PATH]; see --help."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # so that it runs from a checkout without installation

from modelzoo.cli import validate

if __name__ == "__main__":
    validate(__file__)
