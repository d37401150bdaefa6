"""Short experiments that find problems which no file shows."""

from __future__ import annotations

from modelzoo.errors import EnvironmentProblem
from modelzoo.machine.installation import import_torch, import_torchvision


def probe_torchvision() -> str | None:
    """Return why torchvision cannot be used with this torch, in one line, or ``None`` if it can.

    Two builds of the same release, from two indexes, may still be unable to load each other's operators.
    """
    try:
        import_torchvision()
    except EnvironmentProblem as problem:
        return str(problem)
    return None


def probe_page_faults(mib: int = 64, rounds: int = 5) -> float | None:
    """Return the page faults per MiB of a tensor that is freed and allocated again.

    Returns:
        0 if the memory is kept, 256 if every 4 KiB page is new; ``None`` if this is not Unix.
    """
    try:
        import resource
    except ImportError:
        return None
    torch = import_torch()
    size = mib << 18  # floats
    # The first pages are always new, and glibc with raised thresholds settles after 7 rounds (measured).
    for _ in range(10):
        torch.empty(size).fill_(1.0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(rounds):
        torch.empty(size).fill_(1.0)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / (mib * rounds)
