"""Load the workloads that the command line names."""

from __future__ import annotations

from collections.abc import Sequence

from modelzoo.errors import UsageError
from modelzoo.workload import Workload
from modelzoo.workload.discovery import STANDARD_WORKLOADS, find_workload, load_workload


def load_workloads(names: Sequence[str]) -> list[Workload]:
    """Load the workloads called ``names``, or the standard ones if none is named.

    Raises:
        UsageError: a workload does not exist, cannot be loaded, or is named twice.
    """
    workloads = [load_workload(find_workload(name)) for name in names or STANDARD_WORKLOADS]
    found = [workload.name for workload in workloads]
    repeated = sorted({name for name in found if found.count(name) > 1})
    if repeated:
        raise UsageError(f"workload {', '.join(repeated)} is named twice; results are told apart by the name")
    return workloads
