"""Load the recordings of oneDNN's output that several tests share."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

from evidence_samples import called

from modelzoo.evidence.logs import OneDnnLog, parse_onednn
from modelzoo.evidence.recording import Printed, RecordedCall, Recording
from modelzoo.frozen import replace
from modelzoo.records.canary import Canary, CanaryLevel, OperatorCheck
from modelzoo.records.codec import decode

DATA = Path(__file__).parent / "data"
OWN_RECORDINGS = sorted(DATA.glob("onednn_x86_64*.json"))
"""Recorded by tests/data/record_onednn.py: x86 with AVX-512 bf16 unless the name says AVX2 or AMX."""

ARM_RECORDINGS = sorted(DATA.glob("onednn_aarch64-*.json"))
"""Likewise, on processors that QEMU emulates, with oneDNN, Compute Library and OpenBLAS."""

AMX_ATTENTION = sorted(DATA.glob("x86_64-amx_torch*_attention_bf16.log"))
"""oneDNN's log of attention in bf16, 4 heads × 384 rows × 64 columns, on an Intel CPU with AMX, with one thread."""

CALLS = sorted(DATA.glob("calls_x86_64-amx_*.json"))
"""16 products by release and limit of oneDNN's instruction set, on an Intel CPU with AMX: the lines of the log, and the
relative root-mean-square error against fp64. A probe with subnormal products gives 0 where bf16 instructions ran, which
flush them, and 1 where bf16 was emulated."""

MATRIX, BIAS = (128, 256), (128,)
IMAGE, FILTER = (4, 32, 56, 56), (64, 32, 3, 3)
CONVOLUTION_FLOP = 2 * IMAGE[0] * FILTER[0] * math.prod(IMAGE[2:]) * math.prod(FILTER[1:])

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
    return shared / "data" / "onednn_verbose" / f"aarch64_{name}.log"


@dataclass(frozen=True)
class Logged:
    """One of ``OWN_RECORDINGS`` or ``ARM_RECORDINGS``: what oneDNN printed."""

    mode: str
    bf16_method: str | None
    output: str


def load_log(path: Path) -> Logged:
    data = json.loads(path.read_text())
    return Logged(data["mode"], data["bf16_method"], data["output"])


TABLES = sorted(set(DATA.glob("table_*.json")) - set(DATA.glob("table_cuda*.json")))
"""Recorded passes, by tests/data/record_onednn.py, under each setting of oneDNN."""
CUDA_TABLES = sorted(DATA.glob("table_cuda*.json"))
"""Recorded passes of an H100, by tests/data/record_cuda.py."""


@dataclass(frozen=True)
class Table:
    """One of ``TABLES`` or ``CUDA_TABLES``: a recorded pass, and what the canary showed."""

    mode: str
    requested: str
    bf16_method: str | None
    recording: Recording
    canary: Canary


def load_table(path: Path) -> Table:
    data = json.loads(path.read_text())
    recording, canary = decode(Recording, data["recording"]), decode(Canary, data["canary"])
    return Table(data["mode"], data["requested"], data["bf16_method"], recording, canary)


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


def call_of(probe: Probe, seconds: float | None = None) -> RecordedCall:
    """The call of a probe's operator, which gets bf16 tensors from autocast and cast; by default it took what its
    kernels took."""
    dtype = "float32" if probe.section == "fp32" else "bfloat16"
    name, flop, shapes = {
        "matmul": ("aten::mm", None, (MATRIX, MATRIX[::-1])),
        "linear": ("aten::addmm", None, (BIAS, MATRIX, MATRIX[::-1])),
        "conv": ("aten::convolution", CONVOLUTION_FLOP, (IMAGE, FILTER, (64,))),
    }[probe.operator]
    taken = max(sum(primitive.seconds for primitive in probe.log.primitives), 1.0) if seconds is None else seconds
    return replace(called(name, dtype, taken, *shapes, flop=flop), printed=Printed(probe.log))


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
