"""Where a model's weights lie in memory.

Weights that are mapped from a file lie in the page cache, whose pages all processes share. Where the pages of a
process's own memory lie differs from process to process, and with it the speed; a benchmark has to see that.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from modelzoo.machine.linux import FILESYSTEM_ROOT, read_text


def own_memory(model: Any) -> None:
    """Copy the parameters and buffers that lie in mapped files into memory of this process, in place.

    Args:
        model: a ``torch.nn.Module`` on the CPU. Its other tensors are left alone, and so is everything on a system
            without ``/proc/self/maps``.
    """
    ranges = file_mappings(read_text(FILESYSTEM_ROOT / "proc/self/maps") or "")
    for tensor in (*model.parameters(), *model.buffers()):
        if lies_in(tensor.data_ptr(), ranges):
            tensor.data = tensor.data.clone()


def file_mappings(maps: str) -> list[tuple[int, int]]:
    """Return the address ranges that files are mapped to, in order, ends excluded.

    Args:
        maps: content of ``/proc/PID/maps``. Its fifth field is the inode of the mapped file, 0 for memory without one
            (source: proc_pid_maps(5)).
    """
    ranges = []
    for line in maps.splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) >= 5 and fields[4] != "0":
            start, _, end = fields[0].partition("-")
            ranges.append((int(start, 16), int(end, 16)))
    return sorted(ranges)


def lies_in(address: int, ranges: Sequence[tuple[int, int]]) -> bool:
    """Whether one of ``ranges``, in order and apart from each other, contains ``address``."""
    index = bisect_right(ranges, (address, 1 << 64)) - 1
    return index >= 0 and address < ranges[index][1]
