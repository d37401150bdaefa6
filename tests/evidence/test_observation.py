"""What an audit recorded is parsed without torch."""

from __future__ import annotations

import subprocess
import sys

from evidence_samples import conv_line

from modelzoo.evidence.observation import Observation, parse_observation
from modelzoo.frozen import replace
from modelzoo.records.codec import decode, encode
from modelzoo.records.evidence import LogSource

LINE = conv_line("jit:avx512_core", "f32", 1.0)
OBSERVATION = Observation(
    iterations=1,
    seconds=1.0,
    events=(),
    onednn_output=LINE,
    mkl_output="MKL_VERBOSE SGEMM(T,N,384,64,64) 1.50ms CNR:OFF",
    log_source=LogSource.RUNTIME_SWITCH,
    blas="mkl 2024.2",
    onednn_version="3.7.1",
    problems=("a problem",),
)


def test_output_is_parsed() -> None:
    """The output of both libraries ends up in the audit; everything else is kept."""
    audit = parse_observation(OBSERVATION)
    assert [primitive.implementation for primitive in audit.log.primitives] == ["jit:avx512_core"]
    assert [call.function for call in audit.blas_calls] == ["SGEMM"]
    assert (audit.seconds, audit.blas, audit.problems) == (1.0, "mkl 2024.2", ("a problem",))


def test_onednn_version() -> None:
    """oneDNN prints its version only once per process; otherwise the version is what torch reports."""
    assert parse_observation(OBSERVATION).log.version == "3.7.1"
    header = "onednn_verbose,v1,info,oneDNN v3.5.0 (commit 1)\n"
    assert parse_observation(replace(OBSERVATION, onednn_output=header + LINE)).log.version == "3.5.0"


def test_unreadable_lines_are_a_problem() -> None:
    """Lines in an unknown format are reported instead of losing primitives silently."""
    audit = parse_observation(replace(OBSERVATION, onednn_output=LINE + "\n" + LINE[:-30]))
    assert audit.problems == ("a problem", "1 lines of oneDNN's output could not be read")


def test_recordings_can_be_stored() -> None:
    """An observation survives JSON, the format of the recordings in tests/data."""
    assert decode(Observation, encode(OBSERVATION)) == OBSERVATION


def test_judging_an_audit_needs_no_torch() -> None:
    """Parsing, matching, attribution and verdict do not import torch."""
    code = "import sys; sys.modules['torch'] = None; import modelzoo.evidence.verdict, modelzoo.evidence.profile"
    subprocess.run([sys.executable, "-c", code], check=True)
