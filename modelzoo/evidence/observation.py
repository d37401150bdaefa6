"""What an audit records: the profiler's events and the output of oneDNN and MKL. Pure: needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from modelzoo.evidence.onednn_log import BlasCall, OneDnnLog, parse_mkl, parse_onednn
from modelzoo.frozen import replace
from modelzoo.records.evidence import LogSource
from modelzoo.records.profile import Shape


@dataclass(frozen=True)
class Event:
    """One call of one operator on the main thread.

    ``seconds`` is self time, without children; ``parent`` is the index of the caller in ``Audit.events``, -1 for none.
    ``shapes`` and ``dtypes`` describe the arguments in order. Data types have the profiler's names (``float``,
    ``c10::BFloat16``, ``Scalar``); versions of torch that do not record them leave ``dtypes`` empty. ``flop`` are the
    operations of a product, if the engine's profiler shows its sizes.
    """

    name: str
    seconds: float
    parent: int
    shapes: tuple[Shape, ...] = ()
    dtypes: tuple[str, ...] = ()
    flop: Optional[int] = None


@dataclass(frozen=True)
class Observation:
    """An audit as recorded; the fields that ``Audit`` has too are described there.

    ``onednn_output`` and ``mkl_output`` are what the libraries printed, ``onednn_version`` is what torch reports.
    """

    iterations: int
    seconds: float
    events: tuple[Event, ...]
    onednn_output: str
    mkl_output: str
    log_source: LogSource
    blas: str
    sbgemm: Optional[bool] = None
    onednn_version: str = ""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Audit:
    """An observation with the libraries' output parsed.

    Args:
        iterations: number of passes.
        seconds: wall time of all passes together, slower than the timed ones.
        events: every operator call, callers before the operators that they call.
        log: what oneDNN printed.
        log_source: how oneDNN's verbose mode was switched on.
        blas: the library that computes products outside oneDNN, such as ``mkl 2024.2``.
        sbgemm: whether torch passes bf16 products to it; ``None`` if unknown.
        blas_calls: what MKL printed about one further pass.
        problems: what could not be observed.
    """

    iterations: int
    seconds: float
    events: tuple[Event, ...]
    log: OneDnnLog
    log_source: LogSource
    blas: str
    sbgemm: Optional[bool] = None
    blas_calls: tuple[BlasCall, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def shows_onednn(self) -> bool:
        """Whether it is known what oneDNN ran: there is a log, or this torch has no oneDNN."""
        return self.log_source is not LogSource.NONE or not self.log.version


def parse_observation(observation: Observation) -> Audit:
    """Parse what the libraries printed."""
    log = parse_onednn(observation.onednn_output)
    # oneDNN prints its version once per process, before its first primitive; torch reports it too.
    log = replace(log, version=log.version or observation.onednn_version)
    problems = observation.problems
    if log.unparsed:
        problems += (f"{log.unparsed} lines of oneDNN's output could not be read",)
    return Audit(
        iterations=observation.iterations,
        seconds=observation.seconds,
        events=observation.events,
        log=log,
        log_source=observation.log_source,
        blas=observation.blas,
        sbgemm=observation.sbgemm,
        blas_calls=parse_mkl(observation.mkl_output),
        problems=problems,
    )
