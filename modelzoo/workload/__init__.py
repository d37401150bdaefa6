"""What the author of a workload imports; nothing here imports torch until it is called."""

from __future__ import annotations

from modelzoo.records.workload import Count
from modelzoo.workload.checkpoints import Checkpoint
from modelzoo.workload.declaration import InputRequest, Inputs, Option, Workload
from modelzoo.workload.images import pictures, read_text

__all__ = ["Checkpoint", "Count", "InputRequest", "Inputs", "Option", "Workload", "pictures", "read_text"]
