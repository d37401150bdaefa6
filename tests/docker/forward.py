"""One fp32 forward pass of ResNet50 (64 × 64 pixels) and BERT (32 tokens), whose outputs two architectures must share.

    forward.py write DIRECTORY      create seeded weights, run, and store weights, inputs and outputs
    forward.py compare DIRECTORY    run with the stored weights and inputs; exit code 1 unless the outputs match

The inputs are stored because the two architectures decode text and pictures by different code.
"""

import os
import sys
from pathlib import Path

import torch

from modelzoo.workload import discovery, weights
from modelzoo.workload.declaration import InputRequest
from modelzoo.workload.state import load_state_dict

BOUND = 1e-4
"""Largest allowed difference, relative to the largest output. fp32 rounds at 6e-8 and libraries sum in different
orders: about 50 layers amplify that to 1e-6 to 2e-5 (fp32 compared with fp64 on one machine). One layer in bf16 gives
at least 1e-3."""
WORKLOADS = {
    "resnet50_small": (Path(__file__).with_name("resnet50_small"), {}),
    "bert": (discovery.find_workload("bert"), {"sequence": 32}),
}


def main(action: str, directory: Path) -> int:
    worst = 0.0
    for name, (place, given) in WORKLOADS.items():
        work = discovery.load_workload(place)
        options = work.option_values(given)
        kept = directory / f"{name}.pt"
        if action == "write":
            made = weights.resolve_weights(work, options, "random", 0)
            model = weights.load_model(work, options, made).module
            args = work.inputs(InputRequest(1, 0, None, options)).args
        else:
            known = torch.load(kept, weights_only=True)
            args = known["args"]
            model = work.build(options).eval()
            load_state_dict(model, known["state"], kept)
        # The OpenBLAS image differs from the ACL image only by this variable.
        is_onednn = os.environ.get("MODELZOO_BACKEND") != "blas"
        with torch.backends.mkldnn.flags(enabled=is_onednn), torch.inference_mode():
            output = model(*args)
        output = torch.cat([x.flatten() for x in (output if isinstance(output, tuple) else (output,))])
        if action == "write":
            torch.save({"args": args, "state": dict(model.state_dict()), "output": output.clone()}, kept)
            print(f"{name}: {output.numel()} outputs stored, the largest {output.abs().max():.3f}")
            continue
        difference = float((output - known["output"]).abs().max() / known["output"].abs().max())
        worst = max(worst, difference if difference == difference else float("inf"))
        print(f"{name}: {output.numel()} outputs differ by at most {difference:.1e} of the largest (bound {BOUND:.0e})")
    return int(worst > BOUND)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
