"""The checkpoints of the workloads, as a document. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from modelzoo.document import Block, Column, Table


def document(rows: Sequence[tuple[str, str, str, str, str]]) -> list[Block]:
    """Return the checkpoints: workload, name, megabytes, state and place of each."""
    titles = ("workload", "checkpoint", "MB", "state", "place")
    columns = (Column(title, tuple(row[i] for row in rows), is_number=i == 2) for i, title in enumerate(titles))
    return [Table("Checkpoints", tuple(columns))]
