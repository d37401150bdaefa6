"""Compile Jittor, and check that it computes with oneDNN: ``python -m modelzoo.engines.jittor.warmup``.

The last step of ``scripts/setup-jittor``. Jittor compiles its core when it is imported for the first time, and kernels
when a model runs for the first time; both are kept in its cache.
"""

from __future__ import annotations

import os
import sys

from modelzoo.engines.jittor import environment
from modelzoo.engines.jittor.environment import import_jittor, onednn_version
from modelzoo.engines.jittor.model import log_kernels, run_canary
from modelzoo.engines.protocol import Unavailable
from modelzoo.errors import EnvironmentProblem
from modelzoo.machine.cpu import usable_threads
from modelzoo.records.canary import CanaryVerdict

PIXELS = 64


def main() -> int:
    """Run ResNet50 once and the canary, and print one line that says what was found; the entry point of the process."""
    os.environ.update(environment.variables(usable_threads().count))
    del os.environ[environment.SERIAL_VARIABLE]  # everything is compiled here
    try:
        jittor = import_jittor()
        from jittor.models import resnet50

        model = resnet50()
        model.eval()
        with jittor.flag_scope(use_cuda=0, no_grad=1):
            pictures = jittor.zeros((1, 3, PIXELS, PIXELS))
            kernels = log_kernels(lambda: model(pictures).numpy())
            canary = run_canary()
        if isinstance(kernels, Unavailable):
            raise EnvironmentProblem(
                f"Jittor does not compute with oneDNN: {kernels.reason}; remove {environment.home()}"
            )
        if canary.verdict("fp32") is not CanaryVerdict.FP32:
            raise EnvironmentProblem(f"Jittor does not compute in fp32: {canary.summary}; unset fast-math variables")
    except EnvironmentProblem as error:
        print(f"setup-jittor: {error}", file=sys.stderr)
        return 2
    print(f"setup-jittor: Jittor {environment.version()}, oneDNN {onednn_version()}: {canary.summary}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
