"""Answers like ``modelzoo.engines.jittor.engine``, with twice the batch; dies of a batch with a NaN in it."""

from __future__ import annotations

import os
import sys
from multiprocessing.connection import Connection

import numpy as np

from modelzoo.engines.jittor.engine import receive, send

print("something that a library prints")
pipe = Connection(int(sys.argv[2]))
while True:
    batch = receive(pipe)
    if np.isnan(batch).any():
        sys.exit("no memory left")
    send(pipe, batch * 2 + int(os.environ["OMP_NUM_THREADS"]))
