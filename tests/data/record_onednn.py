"""Record what the audit of a small network observes on this machine: ``record_onednn.py OUTPUT_DIR [MODE …]``.

Each mode runs in its own process, with 1 thread, and writes ``table_<machine>_torch<version>_<mode>.json``: the
recorded pass, with what every operator was called with and what was printed meanwhile, and the canary. The recordings
named ``onednn_…`` are of an older recorder and have oneDNN's output only. Under QEMU, the machine is
named with the processor that is emulated (``QEMU_CPU``): ``aarch64-neoverse-n2``.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

MODES = {
    "fp32": ("fp32", None),
    "autocast": ("bf16", "autocast"),
    "cast": ("bf16", "cast"),
    "fastmath": ("bf16", "fastmath"),  # torch's own switch, fp32_precision
    "variable": ("bf16", "fastmath"),  # DNNL_DEFAULT_FPMATH_MODE=BF16
    "overridden": ("bf16", "fastmath"),  # the variable is set and torch's switch overrides it
    "off": ("fp32", None),  # oneDNN switched off
    "compile": ("fp32", None),
    "frozen": ("fp32", None),  # TorchScript, optimized for inference
}


def small_network() -> Any:
    """One of each: 3×3 and 1×1 convolution, Linear, a plain matrix product, attention."""
    import torch
    from torch import nn
    from torch.nn import functional

    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(16, 64, 3, padding=1)
            self.point = nn.Conv2d(64, 64, 1, stride=2)
            self.linear = nn.Linear(64, 64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.point(functional.relu(self.conv(x)))
            x = functional.gelu(self.linear(x.flatten(2).transpose(1, 2)))
            y = x[0] @ x[0].t()
            if hasattr(functional, "scaled_dot_product_attention"):  # not as of the recordings of torch 1.13
                x = functional.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None])[:, 0]
            return x.transpose(1, 2) @ y

    return Small().eval()


def set_switches(mode: str) -> None:
    """Set torch's global switches as ``mode`` requires."""
    import torch

    if mode in ("fastmath", "overridden"):
        value = "bf16" if mode == "fastmath" else "ieee"
        torch.backends.mkldnn.conv.fp32_precision = value
        torch.backends.mkldnn.matmul.fp32_precision = value
    elif mode == "off":
        torch.backends.mkldnn.enabled = False


def prepared(mode: str, model: Any, x: Any) -> tuple[Any, Any]:
    """The model and its input as ``mode`` requires."""
    import torch

    if mode == "cast":
        return model.bfloat16(), x.bfloat16()
    if mode == "compile":
        return torch.compile(model), x
    if mode == "frozen":
        with torch.no_grad():
            return torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(model, x))), x
    return model, x


def record(mode: str) -> dict[str, object]:
    """Record a pass under ``mode``; return what the recording's file holds."""
    import torch

    from modelzoo.evidence.audit import watched_kernels
    from modelzoo.evidence.canary import run_canary
    from modelzoo.evidence.recording import Plan, record_pass
    from modelzoo.records.codec import encode

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, x = small_network(), torch.randn(1, 16, 56, 56)
    set_switches(mode)
    is_compiled, eager = mode in ("compile", "frozen"), model
    model, x = prepared(mode, model, x)
    plan = Plan(
        eager=(lambda: eager(x)) if is_compiled else None,
        model=eager,
        budget=lambda seconds: math.inf,
    )

    def autocast() -> Any:
        return torch.autocast("cpu", torch.bfloat16) if mode == "autocast" else contextlib.nullcontext()

    def call() -> object:
        with autocast():  # anew in each call, as weights that it keeps are computed by no operator of the pass
            return model(x)

    with torch.no_grad():
        for _ in range(3):
            call()
        with autocast():
            canary = run_canary(dtype=torch.bfloat16 if mode == "cast" else None, watch=watched_kernels)
        recording = record_pass(call, plan)
    requested, bf16_method = MODES[mode]
    return {
        "torch": torch.__version__,
        "mode": mode,
        "requested": requested,
        "bf16_method": bf16_method,
        "recording": encode(recording),
        "canary": encode(canary),
    }


def machine_name() -> str:
    """The architecture, and the processor that QEMU emulates."""
    return "-".join(filter(None, [platform.machine(), os.environ.get("QEMU_CPU")]))


def main() -> None:
    if sys.argv[1] == "--child":
        print("\n" + json.dumps(record(sys.argv[2])))
        return
    folder, modes = Path(sys.argv[1]), sys.argv[2:] or list(MODES)
    for mode in modes:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        environment.pop("DNNL_DEFAULT_FPMATH_MODE", None)
        if mode in ("variable", "overridden"):
            environment["DNNL_DEFAULT_FPMATH_MODE"] = "BF16"
        done = subprocess.run(
            [sys.executable, __file__, "--child", mode], env=environment, stdout=subprocess.PIPE, check=True
        )
        recording = json.loads(done.stdout.decode().strip().splitlines()[-1])
        version = recording["torch"].split("+")[0]
        path = folder / f"table_{machine_name()}_torch{version}_{mode}.json"
        path.write_text(json.dumps(recording, indent=None, separators=(",", ":")) + "\n")
        print(path, path.stat().st_size)


if __name__ == "__main__":
    main()
