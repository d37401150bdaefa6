"""Is int8 faster, did it run, and is it still right? Measures what docs/quantization.md sums up.

For each workload, one ``modelzoo run --validate`` with all recipes, interleaved with fp32, which is their baseline. The
results are kept in results/quantization. Other options are those of ``modelzoo run``:

    .venv/bin/python benchmarks/quantization.py [bert resnet50 …] [--processes N] [--max-seconds S]
    .venv/bin/python benchmarks/quantization.py bert --weights DIRECTORY --data dev.json

Without ``--weights``, they are random, and accuracy is not judged. The exit code is the largest of the calls.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results" / "quantization"
ONNX_RUNTIME = "engine=onnxruntime"
OF_DETECTORS = ("precision=fp32", f"precision=fp32 {ONNX_RUNTIME}", f"precision=int8 recipe=static {ONNX_RUNTIME}")
SETTINGS = {
    "resnet50": (
        "precision=fp32 mode=compile",
        "precision=int8 recipe=static mode=compile",
        f"precision=fp32 {ONNX_RUNTIME}",
        f"precision=int8 recipe=static {ONNX_RUNTIME}",
    ),
    "ssd": OF_DETECTORS,
    "maskrcnn": OF_DETECTORS,
    "bert": (
        "precision=fp32 linear=onednn",
        "precision=bf16",
        "precision=int8 recipe=torchao",
        "precision=int8 recipe=dynamic-x86",
        "precision=int8 recipe=dynamic-onednn",
        "precision=int8 recipe=static mode=compile",
        f"precision=fp32 {ONNX_RUNTIME}",
        f"precision=int8 recipe=dynamic-per-tensor {ONNX_RUNTIME}",
        f"precision=int8 recipe=dynamic-per-channel {ONNX_RUNTIME}",
    ),
}
"""The settings of each workload, the baseline first. torch's other recipes quantize no convolution, and torch.export
captures no detector of torchvision. BERT's baseline is oneDNN's Linear: MKL's is slower on AMD's CPUs, which would
flatter int8."""


def commands(words: Sequence[str]) -> list[list[str]]:
    """What measures the workloads, which come first; the options after them win over those that are given here."""
    names = list(takewhile(lambda word: not word.startswith("-"), words))
    return [
        [
            *("run", name, "--validate", "--weights", "random"),
            *(word for setting in SETTINGS[name] for word in ("--setting", setting)),
            *("-o", str(RESULTS / f"{name}.json"), "--artifacts", str(RESULTS / "artifacts"), *words[len(names) :]),
        ]
        for name in names or SETTINGS
    ]


def main(words: Sequence[str]) -> int:
    """Measure; the suite prints the tables."""
    if {"-h", "--help"} & set(words):
        print(__doc__)
        return 0
    RESULTS.mkdir(parents=True, exist_ok=True)
    return max(
        subprocess.run([sys.executable, "-m", "modelzoo", *each], cwd=ROOT).returncode for each in commands(words)
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
