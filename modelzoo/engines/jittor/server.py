"""Predict with Jittor for another process: ``python -m modelzoo.engines.jittor.server EXPORT``.

EXPORT is the directory of an exported model. Each array on standard input (``modelzoo.engines.jittor.remote``) is
answered with an array on standard output; what libraries print goes to standard error.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from modelzoo.engines.jittor import network
from modelzoo.engines.jittor.framework import import_jittor
from modelzoo.engines.jittor.remote import read_array, write_array
from modelzoo.errors import ModelzooError


def main() -> int:
    """Answer until standard input is closed; the entry point of the process."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        jittor = import_jittor()
        model = network.load(Path(sys.argv[1]))
    except ModelzooError as error:
        print(error, file=sys.stderr)
        return 2
    with jittor.flag_scope(use_cuda=0, no_grad=1):
        while (batch := read_array(sys.stdin.buffer)) is not None:
            write_array(answers, model(jittor.array(batch)).numpy())
    return 0


if __name__ == "__main__":
    sys.exit(main())
