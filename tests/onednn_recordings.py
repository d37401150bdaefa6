"""Load the recordings of oneDNN's output that several tests share."""

from __future__ import annotations

import contextlib
import json
import math
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from modelzoo.evidence.flops import Call, record_calls
from modelzoo.evidence.observation import Audit, Event, Observation, parse_observation
from modelzoo.evidence.onednn_log import OneDnnLog, parse_onednn
from modelzoo.frozen import replace
from modelzoo.records.canary import Canary, CanaryLevel, OperatorCheck
from modelzoo.records.codec import decode
from modelzoo.records.evidence import LogSource

DATA = Path(__file__).parent / "data"
OWN_RECORDINGS = sorted(DATA.glob("onednn_x86_64*.json"))
"""Recorded by tests/data/record_onednn.py: x86 with AVX-512 bf16 unless the name says AVX2 or AMX."""

ARM_RECORDINGS = sorted(DATA.glob("onednn_aarch64-*.json"))
"""Likewise, on processors that QEMU emulates, with oneDNN, Compute Library and OpenBLAS."""

AMX_RECORDINGS = sorted(DATA.glob("onednn_x86_64-amx_*cast.json"))
"""As ``OWN_RECORDINGS``, on an Intel CPU with AMX, by autocast and in a model cast to bf16."""

AMX_ATTENTION = sorted(DATA.glob("x86_64-amx_torch*_attention_bf16.log"))
"""oneDNN's log of attention in bf16, 4 heads × 384 rows × 64 columns, on an Intel CPU with AMX, with one thread."""

MATRIX, BIAS = (128, 256), (128,)
IMAGE, FILTER = (4, 32, 56, 56), (64, 32, 3, 3)

LOGS = (
    "neoverse-n1_torch2.10.0_fpmath-strict",
    "neoverse-n2_torch1.13.0_fpmath-bf16",
    "neoverse-n2_torch1.13.0_fpmath-strict",
    "neoverse-n2_torch2.0.1_fpmath-bf16",
    "neoverse-n2_torch2.0.1_fpmath-strict",
    "neoverse-n2_torch2.10.0_fpmath-bf16",
    "neoverse-n2_torch2.10.0_fpmath-strict",
    "neoverse-n2_torch2.5.1_fpmath-bf16",
    "neoverse-n2_torch2.5.1_fpmath-strict",
)
"""Recorded on emulated ARM machines; see ``log_path``."""


def log_path(shared: Path, name: str) -> Path:
    """The file of one of ``LOGS``."""
    return shared / "data" / "onednn_verbose" / f"aarch64_{name}.log"


@dataclass(frozen=True)
class Recording:
    """One of ``OWN_RECORDINGS``: what ran, and what the canary showed."""

    mode: str
    requested: str
    bf16_method: str | None
    output: str
    audit: Audit
    canary: Canary


def load_recording(path: Path) -> Recording:
    """Load one of ``OWN_RECORDINGS``."""
    data = json.loads(path.read_text())
    observation = decode(Observation, data["observation"])
    audit, canary = parse_observation(observation), decode(Canary, data["canary"])
    if not any(primitive.kind == "matmul" for primitive in audit.log.primitives):
        # Neither did the canary's products run in oneDNN then; its log was not recorded.
        canary = Canary(
            tuple(replace(check, kernels=None if check.operator == "conv" else ()) for check in canary.operators)
        )
    return Recording(
        mode=data["mode"],
        requested=data["requested"],
        bf16_method=data["bf16_method"],
        output=observation.onednn_output,
        audit=audit,
        canary=canary,
    )


@dataclass(frozen=True)
class Probe:
    """One operator of a log of ``LOGS``: the bf16 method, its error and oneDNN's lines."""

    section: str
    operator: str
    bf16_method: str | None
    error: float
    log: OneDnnLog

    @property
    def truth(self) -> str:
        """The precision that the error proves."""
        assert self.error >= 1e-3 or self.error < 1e-5
        return "bf16" if self.error >= 1e-3 else "fp32"


def probes(path: Path) -> list[Probe]:
    """Split a log at its ``MARK`` and ``ERR`` lines; the lines before an ``ERR`` belong to it."""
    fast = "fpmath-bf16" in path.name
    found = []
    lines: list[str] = []
    for line in path.read_text().splitlines():
        error = re.match(r"ERR (\w+) (\w+) ([\d.e+-]+)", line)
        if line.startswith("MARK"):
            lines = []
        elif error:
            section, operator, value = error.groups()
            bf16_method = {"fp32": "fastmath" if fast else None, "bf16": "cast", "ac": "autocast"}[section]
            name = {"mm": "matmul"}.get(operator, operator)
            # The last two operators of a log ran before the error of either was printed.
            later = [each for each in lines if ",convolution," in each and name != "conv"]
            own = "\n".join(each for each in lines if each not in later)
            found.append(Probe(section, name, bf16_method, float(value), parse_onednn(own)))
            lines = later
        else:
            lines.append(line)
    return found


def fp32_probes(shared: Path, name: str) -> list[Probe]:
    """The probes with fp32 tensors in one of ``LOGS``."""
    return [probe for probe in probes(log_path(shared, name)) if probe.section == "fp32"]


def event_of(probe: Probe, seconds: float = 100.0) -> Event:
    """The profiler's event for a probe's operator, which gets bf16 tensors from autocast and cast."""
    dtype = "float" if probe.section == "fp32" else "c10::BFloat16"
    name, shapes = {
        "matmul": ("aten::mm", (MATRIX, MATRIX[::-1])),
        "linear": ("aten::addmm", (BIAS, MATRIX, MATRIX[::-1])),
        "conv": ("aten::mkldnn_convolution", (IMAGE, FILTER, (64,))),
    }[probe.operator]
    if probe.operator == "conv" and not probe.log.primitives:
        name = "aten::_slow_conv2d_forward"
    return Event(name, seconds, -1, shapes, (dtype,) * len(shapes))


def audit_of(probe: Probe) -> Audit:
    """An audit of this operator alone."""
    event = event_of(probe)
    return Audit(1, event.seconds, (event,), probe.log, LogSource.ENVIRONMENT, "openblas")


def canary_of(all_probes: list[Probe], probe: Probe) -> Canary:
    """The canary under the same setting, from the errors of the probe's section."""
    return Canary(
        tuple(
            OperatorCheck(
                each.operator,
                each.error,
                CanaryLevel(each.truth),
                kernels=tuple(sorted({line.kernel for line in each.log.primitives if line.is_compute})),
            )
            for each in all_probes
            if each.section == probe.section
        )
    )


def counted_calls(*some: Probe) -> tuple[Call, ...]:
    """What torch would count of the operators of some probes, once each."""
    product = 2 * math.prod(MATRIX) * MATRIX[0]
    convolution = 2 * IMAGE[0] * FILTER[0] * math.prod(IMAGE[2:]) * math.prod(FILTER[1:])
    calls = {
        "matmul": Call("aten::mm", (MATRIX, MATRIX[::-1]), product, 0),
        "linear": Call("aten::addmm", (BIAS, MATRIX, MATRIX[::-1]), product, 0),
        "conv": Call("aten::convolution", (IMAGE, FILTER, FILTER[:1]), convolution, 0),
    }
    return tuple(calls[probe.operator] for probe in some)


@cache
def calls_of(mode: str, has_attention: bool = True) -> tuple[Call, ...]:
    """What torch counts in a pass of the network of ``OWN_RECORDINGS``; torch 1.13 has no attention."""
    import sys
    from unittest.mock import patch

    import torch

    sys.path.insert(0, str(DATA))
    import record_onednn

    sys.path.remove(str(DATA))
    model, x = record_onednn.small_network(), torch.randn(1, 16, 56, 56)
    if mode == "cast":
        model, x = model.bfloat16(), x.bfloat16()
    with contextlib.ExitStack() as stack:
        if not has_attention:
            stack.enter_context(patch.object(torch.nn.functional, "scaled_dot_product_attention"))
            del torch.nn.functional.scaled_dot_product_attention
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.autocast("cpu", torch.bfloat16, enabled=mode == "autocast"))
        return tuple(record_calls(lambda: model(x)))
