"""Answers like ``modelzoo.engines.jittor.server``, with twice the batch; dies of a batch with a NaN in it."""

from __future__ import annotations

import os
import sys

import numpy as np

from modelzoo.engines.jittor.remote import read_array, write_array

print("something that a library prints", file=sys.stderr)
while (batch := read_array(sys.stdin.buffer)) is not None:
    if np.isnan(batch).any():
        sys.exit("no memory left")
    write_array(sys.stdout.buffer, batch * 2 + int(os.environ["OMP_NUM_THREADS"]))
