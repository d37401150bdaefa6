"""Which workloads the command line names."""

from __future__ import annotations

from collections.abc import Sequence

from modelzoo.errors import UsageError
from modelzoo.workload import Workload
from modelzoo.workload import declaration as workload


def load_workloads(names: Sequence[str]) -> list[Workload]:
    found = [workload.load(workload.find(name)) for name in names or workload.STANDARD]
    twice = {work.name for work in found if sum(other.name == work.name for other in found) > 1}
    if twice:
        raise UsageError(f"workload {', '.join(sorted(twice))} is named twice; results are told apart by that name")
    return found
