"""Record OpenVINO's runtime model of a small network on this machine: ``record_openvino.py OUTPUT_DIR``.

Each precision writes ``openvino_<version>_<machine>_<precision>.json``: the nodes after one pass and after two more,
each with its name, attributes and the shapes of its inputs. ``default`` is compiled without a precision hint.
"""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

import openvino
import torch
from openvino.frontend import FrontEndManager
from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from modelzoo.engines.openvino import PRECISION_HINT, compile_options
from modelzoo.engines.openvino.evidence import read_layers
from modelzoo.setting import ResolvedSetting


class Network(torch.nn.Module):
    """Two convolutions, a layer, attention and a product."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.Conv2d(32, 64, 1)
        self.layer, self.last = torch.nn.Linear(64, 96), torch.nn.Linear(32, 10)

    def forward(self, pictures: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = torch.relu(self.narrow(torch.relu(self.wide(pictures)))).flatten(2).transpose(1, 2)
        heads = (part.unflatten(-1, (4, 8)).transpose(1, 2) for part in self.layer(features).chunk(3, -1))
        found = torch.nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        return self.last(found), torch.matmul(found.transpose(1, 2), found)


def main(folder: Path) -> None:
    torch.manual_seed(0)
    batch = torch.randn(2, 3, 16, 16)
    frontend = FrontEndManager().load_by_framework("pytorch")
    decoder = TorchScriptPythonDecoder(torch.jit.trace(Network().eval(), batch))  # the frontend does not keep it alive
    model = frontend.convert(frontend.load(decoder))
    model.reshape({0: openvino.PartialShape(list(batch.shape))})
    options = {**compile_options(ResolvedSetting(threads=2)), "PERF_COUNT": "YES"}
    default = {name: value for name, value in options.items() if name not in (PRECISION_HINT, "EXECUTION_MODE_HINT")}
    for precision, chosen in (("f32", options), ("default", default)):
        compiled = openvino.Core().compile_model(model, "CPU", chosen)
        request = compiled.create_infer_request()
        recorded = []
        for passes in (1, 2):
            for _ in range(passes):
                request.infer([batch.numpy()])
            recorded.append(read_layers(compiled))
        version = openvino.get_version().partition("-")[0]
        path = folder / f"openvino_{version}_{platform.machine()}_{precision}.json"
        path.write_text(json.dumps(recorded, indent=None, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
