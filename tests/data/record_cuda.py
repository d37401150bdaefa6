"""Record which kernels the four networks launch on a CUDA device: ``record_cuda.py FILE``.

Each network runs with random weights in every precision, and every distinct kernel is written with the operator that
launched it and the types of its operands. PyTorch's own kernels are left out, most of which multiply nothing, and names
are cut after 300 characters.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "bf16=cast")
_OWN = re.compile(r"(void )?(at::|at_cuda_detail|\(anonymous|vision)")


def networks() -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """The networks of the four workloads, each with its arguments on the device."""
    import torch
    from torchvision.models import detection, resnet50
    from transformers import BertConfig, BertForQuestionAnswering

    def picture(*shape: int) -> Any:
        return torch.rand(*shape, device="cuda")

    torch.manual_seed(0)
    empty = {"weights": None, "weights_backbone": None}
    yield "resnet50", resnet50(weights=None), (picture(8, 3, 224, 224),)
    yield "ssd", detection.ssd300_vgg16(**empty), ([picture(3, 300, 300)],)
    yield "maskrcnn", detection.maskrcnn_resnet50_fpn(**empty), ([picture(3, 480, 640)],)
    yield "bert", BertForQuestionAnswering(BertConfig()), (torch.randint(0, 1000, (1, 384), device="cuda"),)


def converted(value: Any) -> Any:
    """A model's arguments in bf16."""
    if isinstance(value, (list, tuple)):
        return type(value)(converted(each) for each in value)
    return value.bfloat16() if value.is_floating_point() else value


def recorded(network: Any, arguments: tuple[Any, ...], precision: str) -> Any:
    """The kernels of one warmed-up pass."""
    import torch

    from modelzoo.evidence.profiler import run_device_profiled

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    network.to(torch.bfloat16 if precision == "bf16=cast" else torch.float32)
    given = converted(arguments) if precision == "bf16=cast" else arguments
    types = {"bf16": torch.bfloat16, "fp16": torch.float16}
    context: Any = torch.autocast("cuda", types[precision]) if precision in types else contextlib.nullcontext()
    with torch.inference_mode(), context:
        for _ in range(3):
            network(*given)
        return run_device_profiled(lambda: network(*given), 1, "cuda", torch.cuda.synchronize)


def main(path: str) -> None:
    import torch

    kernels: dict[tuple[Any, ...], set[str]] = {}
    failed = []
    for name, network, arguments in networks():
        network.eval().cuda()
        for precision in PRECISIONS:
            try:
                found = recorded(network, arguments, precision)
            except Exception as error:
                failed.append([name, precision, str(error).partition("\n")[0][:100]])
                continue
            for each in found:
                if not _OWN.match(each.name):
                    key = (precision, each.name[:300], each.operator, each.dtypes[:2])
                    kernels.setdefault(key, set()).add(name)
    columns = ("precision", "name", "operator", "dtypes", "networks")
    rows = [dict(zip(columns, (*key, sorted(names)))) for key, names in sorted(kernels.items())]
    record = {"torch": torch.__version__, "device": torch.cuda.get_device_name(), "failed": failed, "kernels": rows}
    Path(path).write_text(json.dumps(record, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
