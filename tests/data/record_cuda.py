"""Record what the audit of a small network observes on a CUDA device: ``record_cuda.py OUTPUT_DIR [MODE …]``.

Each mode runs in this process and writes ``table_cuda_torch<version>_<mode>.json``, as ``record_onednn.py`` does on a
CPU. Names are cut after 300 characters. ``cuda_h100_torch2.11.0.json`` is of an older recorder, which wrote the kernels
of the four workloads.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parent)]

MODES = {
    "fp32": ("fp32", None),
    "tf32": ("tf32", None),
    "autocast": ("bf16", "autocast"),
    "cast": ("bf16", "cast"),
    "fp16": ("fp16", "autocast"),
    "compile": ("fp32", None),
    "graph": ("bf16", "cast"),  # a CUDA graph, whose kernels no operator launches
}


def graph_of(model: Any, x: Any) -> Any:
    """A call that replays the model's kernels."""
    import torch

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = model(x)

    def replay(_: Any) -> Any:
        graph.replay()
        return output

    return replay


def record(mode: str) -> dict[str, object]:
    """Record a pass under ``mode``; return what the recording's file holds."""
    import torch
    from record_onednn import small_network

    from modelzoo.evidence.canary import run_canary
    from modelzoo.evidence.recording import Plan, record_pass
    from modelzoo.records.codec import encode

    requested, method = MODES[mode]
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = mode == "tf32"
    dtype = torch.bfloat16 if method == "cast" else torch.float32
    model, x = small_network().cuda().to(dtype), torch.randn(1, 16, 56, 56, device="cuda", dtype=dtype)
    types = {"autocast": torch.bfloat16, "fp16": torch.float16}

    def autocast() -> Any:
        return torch.autocast("cuda", types[mode]) if mode in types else contextlib.nullcontext()

    eager = model
    with torch.inference_mode():
        for _ in range(3):
            with autocast():
                eager(x)
        if mode == "compile":
            model = torch.compile(eager)
        elif mode == "graph":
            model = graph_of(eager, x)

        def call() -> object:
            with autocast():  # anew in each call, as weights that it keeps are computed by no operator of the pass
                return model(x)

        for _ in range(3):
            call()
        with autocast():
            canary = run_canary("cuda", torch.bfloat16 if method == "cast" else None)
        is_other = model is not eager
        plan = Plan(
            eager=(lambda: eager(x)) if is_other else None,
            model=eager,
            budget=lambda seconds: math.inf,
            asked=requested,
            device="cuda",
            synchronize=torch.cuda.synchronize,
        )
        recording = record_pass(call, plan)
    return {
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(),
        "mode": mode,
        "requested": requested,
        "bf16_method": method,
        "recording": encode(recording),
        "canary": encode(canary),
    }


def cut(value: Any) -> Any:
    """``value`` with names of kernels of at most 300 characters."""
    if isinstance(value, dict):
        return {key[:300]: cut(each) for key, each in value.items()}
    if isinstance(value, list):
        return [cut(each) for each in value]
    return value[:300] if isinstance(value, str) else value


def main() -> None:
    folder, modes = Path(sys.argv[1]), sys.argv[2:] or list(MODES)
    for mode in modes:
        recording = cut(record(mode))
        version = str(recording["torch"]).split("+")[0]
        path = folder / f"table_cuda_torch{version}_{mode}.json"
        path.write_text(json.dumps(recording, indent=None, separators=(",", ":")) + "\n")
        print(path, path.stat().st_size, flush=True)


if __name__ == "__main__":
    main()
