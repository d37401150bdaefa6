"""Four layers, some of which compute in another precision than their tensors say.

The option ``plant`` names the precision; the first of the layers has it, or all of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cache
from typing import Any

from modelzoo.workload import InputRequest, Inputs, Option, Workload

WIDTH = 512
LAYERS = 4


def layer(plant: str, linear: Any) -> Any:
    """``linear`` as a function that computes in the precision ``plant``, of an fp32 input and output."""
    import torch

    aten, weight = torch.ops.aten, linear.weight.detach()
    if plant == "dynamic-int8":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch moves it to another package
            return torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(linear), {torch.nn.Linear})
    if plant in ("dequantized", "converted", "int8-loop"):
        return slow_layer(plant, weight)
    if plant == "weight-int8":
        scale = weight.abs().amax(1) / 127
        rounded = (weight / scale[:, None]).round().to(torch.int8)
        return lambda x: aten._weight_int8pack_mm(x, rounded, scale)
    if plant == "weight-int4":
        numbers = torch.randint(0, 16, (WIDTH, WIDTH), dtype=torch.int32)
        packed, scales = aten._convert_weight_to_int4pack_for_cpu(numbers, 1), torch.rand(WIDTH // 32, WIDTH, 2)
        return lambda x: aten._weight_int4pack_mm_for_cpu(x, packed, 32, scales)
    if plant == "dynamic-int4":
        numbers = torch.randint(0, 255, (WIDTH, WIDTH // 2), dtype=torch.uint8)
        packed = aten._dyn_quant_pack_4bit_weight(numbers, torch.rand(WIDTH, WIDTH // 32), None, 32, WIDTH, WIDTH)
        return lambda x: aten._dyn_quant_matmul_4bit(x, packed, 32, WIDTH, WIDTH)
    if plant == "fp8":
        narrow, one = weight.to(torch.float8_e4m3fn), torch.tensor(1.0)
        return lambda x: aten._scaled_mm(x.to(torch.float8_e4m3fn), narrow.t(), one, one, out_dtype=torch.float32)
    if plant == "wrong":
        return lambda x: _wrong_linear()(x, weight)
    if plant in ("bf16", "fp16"):
        dtype = torch.bfloat16 if plant == "bf16" else torch.float16
        converted = linear.to(dtype)
        return lambda x: converted(x.to(dtype)).float()
    if plant == "fp32":  # whatever autocast is asked for
        return lambda x: _without_autocast(linear, x)
    return linear


@cache
def _wrong_linear() -> Any:
    """An operator whose 78th output of each row is that of another channel."""
    import torch

    def kernel(x: Any, w: Any) -> Any:
        output = torch.nn.functional.linear(x, w)
        output[:, 77] = output[:, 78]
        return output

    library = torch.library.Library("modelzoo", "FRAGMENT")
    library.define("linear(Tensor x, Tensor w) -> Tensor")
    library.impl("linear", kernel, "CPU")
    _KEPT.append(library)
    return torch.ops.modelzoo.linear


_KEPT: list[Any] = []
"""A library is gone with its object."""


def slow_layer(plant: str, weight: Any) -> Any:
    """A layer whose weights are int8, and that gains nothing by it."""
    import torch

    numbers = (weight * 1000).round().to(torch.int8)
    if plant == "dequantized":
        packed = torch.quantize_per_channel(weight, weight.abs().amax(1) / 127, torch.zeros(WIDTH), 0, torch.qint8)
        return lambda x: torch.nn.functional.linear(x, packed.dequantize())
    if plant == "converted":
        return lambda x: torch.nn.functional.linear(x, numbers.to(x.dtype)) / 1000
    product = torch.ops.aten._int_mm
    return lambda x: _without_onednn(product, (x * 30).to(torch.int8), numbers.t()).float() / 30000


def _without_onednn(product: Any, *operands: Any) -> Any:
    import torch

    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        return product(*operands)
    finally:
        torch._C._set_mkldnn_enabled(before)


def _without_autocast(linear: Any, x: Any) -> Any:
    import torch

    with torch.autocast("cpu", enabled=False):
        return linear(x.float())


def build(options: Mapping[str, Any]) -> Any:
    """The layers, with a ReLU behind each; only a bias is in the state, since packed weights are not.

    What quantizes a model does not find them, because they are not registered.
    """
    import torch

    class Planted(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.bias = torch.nn.Parameter(torch.zeros(WIDTH))
            if options["quantizable"] == "yes":
                self.unused = torch.nn.Linear(1, 1)
            plants = [options["plant"]] * LAYERS if options["where"] == "all" else [options["plant"]] + ["none"] * 3
            self.layers = [[layer(plant, torch.nn.Linear(WIDTH, WIDTH))] for plant in plants]

        def forward(self, x: Any) -> Any:
            for (each,) in self.layers:
                x = torch.relu(each(x) + self.bias)
            return x

    return Planted()


def inputs(request: InputRequest) -> Inputs:
    """Rows of noise."""
    import torch

    return Inputs((torch.randn(64, WIDTH),), ("noise",))


WORKLOAD = Workload(
    name="planted",
    title="layers in a planted precision",
    unit="batches",
    build=build,
    inputs=inputs,
    options=(
        Option("plant", "none", "the precision that is planted"),
        Option("where", "all", "in which layers", choices=("all", "one")),
        Option("quantizable", "no", "whether a layer that is not used can be quantized", choices=("no", "yes")),
    ),
)
