"""Record how single products run on this machine: ``record_products.py OUTPUT_DIR``, one file per version of torch.

For each product: oneDNN's and MKL's raw output and the profiler's events of one pass, with 1 thread. What this version
of torch lacks is left out.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

Product = Callable[[], Any]
ROWS, INPUTS, OUTPUTS, GROUP = 32, 128, 64, 32


def integers(*shape: int) -> Any:
    """A tensor of small int8 numbers."""
    import torch

    return torch.randint(-5, 5, shape, dtype=torch.int8)


def int_mm() -> Product:
    """int8 × int8 to int32."""
    import torch

    left, right = integers(ROWS, INPUTS), integers(INPUTS, OUTPUTS)
    return lambda: torch._int_mm(left, right)


def bf16_mv() -> Product:
    """A matrix by a vector in bf16."""
    import torch

    matrix, vector = torch.randn(OUTPUTS, INPUTS).bfloat16(), torch.randn(INPUTS).bfloat16()
    return lambda: torch.mv(matrix, vector)


def bf16_linear_of_one_row() -> Product:
    """Linear in bf16 with one row, as in a language model that generates."""
    import torch

    row, weight = torch.randn(1, INPUTS).bfloat16(), torch.randn(OUTPUTS, INPUTS).bfloat16()
    return lambda: torch.nn.functional.linear(row, weight)


def dynamic_4bit() -> Product:
    """Weights of 4 bits in groups, activations quantized on the fly: KleidiAI's on ARM."""
    import torch

    packed = torch.randint(0, 255, (OUTPUTS, INPUTS // 2), dtype=torch.uint8)
    scales = torch.rand(OUTPUTS, INPUTS // GROUP).bfloat16()
    weight = torch.ops.aten._dyn_quant_pack_4bit_weight(packed, scales, None, GROUP, INPUTS, OUTPUTS)
    rows = torch.randn(ROWS, INPUTS)
    return lambda: torch.ops.aten._dyn_quant_matmul_4bit(rows, weight, GROUP, INPUTS, OUTPUTS)


def int8_weights() -> Product:
    """Weights in int8, activations in bf16."""
    import torch

    rows, weight, scales = torch.randn(ROWS, INPUTS).bfloat16(), integers(OUTPUTS, INPUTS), torch.rand(OUTPUTS)
    return lambda: torch.ops.aten._weight_int8pack_mm(rows, weight, scales.bfloat16())


def int4_weights() -> Product:
    """Weights of 4 bits in groups, activations in bf16."""
    import torch

    weight = torch.randint(0, 15, (OUTPUTS, INPUTS), dtype=torch.int32)
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(weight, 1)
    scales = torch.rand(INPUTS // GROUP, OUTPUTS, 2).bfloat16()
    rows = torch.randn(ROWS, INPUTS).bfloat16()
    return lambda: torch.ops.aten._weight_int4pack_mm_for_cpu(rows, packed, GROUP, scales)


def quantized_linear() -> Product:
    """oneDNN's quantized Linear, as PT2E's models call it."""
    import torch

    weight = torch.ops.onednn.qlinear_prepack(integers(OUTPUTS, INPUTS), [ROWS, INPUTS])
    rows = torch.randint(0, 100, (ROWS, INPUTS), dtype=torch.uint8)
    scales, zeros = torch.rand(OUTPUTS), torch.zeros(OUTPUTS, dtype=torch.int64)
    return lambda: torch.ops.onednn.qlinear_pointwise(
        rows, 0.1, 0, weight, scales, zeros, None, 1.0, 0, torch.float32, "none", [], ""
    )


def lstm(dtype: str = "float32") -> Product:
    """One layer of an LSTM."""
    import torch

    layer, steps = torch.nn.LSTM(64, 64).eval().to(getattr(torch, dtype)), torch.randn(5, 3, 64)
    steps = steps.to(getattr(torch, dtype))
    return lambda: layer(steps)


def deconvolution() -> Product:
    """A transposed convolution."""
    import torch

    layer, images = torch.nn.ConvTranspose2d(16, 32, 3).eval(), torch.randn(2, 16, 28, 28)
    return lambda: layer(images)


def fp8_mm() -> Product:
    """fp8 × fp8 with scales."""
    import torch

    left, right = (torch.randn(32, 32).to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.tensor(1.0)
    return lambda: torch._scaled_mm(left, right.t(), one, one, out_dtype=torch.float32)


def cpp_template(dtype: str = "float32") -> Product:
    """Linear with a bias, compiled with inductor's own C++ template instead of a library."""
    import torch
    from torch._inductor import config

    config.freezing = True
    config.max_autotune_gemm_backends = "CPP"
    layer = torch.nn.Linear(INPUTS, OUTPUTS).eval().to(getattr(torch, dtype))
    compiled = torch.compile(layer, mode="max-autotune-no-cudagraphs")
    rows = torch.randn(ROWS, INPUTS).to(getattr(torch, dtype))
    return lambda: compiled(rows)


PRODUCTS: dict[str, Callable[[], Product]] = {
    "int_mm": int_mm,
    "bf16_mv": bf16_mv,
    "bf16_linear_of_one_row": bf16_linear_of_one_row,
    "dynamic_4bit": dynamic_4bit,
    "int8_weights": int8_weights,
    "int4_weights": int4_weights,
    "quantized_linear": quantized_linear,
    "lstm": lstm,
    "bf16_lstm": lambda: lstm("bfloat16"),
    "deconvolution": deconvolution,
    "fp8_mm": fp8_mm,
    "cpp_template": cpp_template,
    "bf16_cpp_template": lambda: cpp_template("bfloat16"),
}


def record() -> Iterator[tuple[str, object]]:
    """Name and encoded observation of each product."""
    import torch

    from modelzoo.evidence.audit import observe
    from modelzoo.records.codec import encode

    torch.set_num_threads(1)
    torch.manual_seed(0)
    with torch.no_grad():
        for name, make in PRODUCTS.items():
            try:
                product = make()
                product()
            except (AttributeError, RuntimeError) as error:
                print(f"{name}: {str(error).splitlines()[0]}", file=sys.stderr)
                continue
            yield name, encode(observe(product, 1))


def main() -> None:
    import torch

    version = torch.__version__.split("+")[0]
    path = Path(sys.argv[1]) / f"products_{platform.machine()}_torch{version}.json"
    path.write_text(json.dumps(dict(record()), separators=(",", ":")) + "\n")
    print(path, path.stat().st_size)


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    main()
