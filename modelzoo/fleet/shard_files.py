"""Finished shards on the disk of a host: one JSON file each, written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

import msgspec

from modelzoo.errors import InputError, UsageError
from modelzoo.files import write_atomically
from modelzoo.records.codec import encode_json
from modelzoo.records.protocol import decode_shard_result
from modelzoo.records.shards import Shard, ShardPlan, ShardResult


class ShardFiles:
    """The shards in one directory, which hosts may share. Files of other data sets and settings do no harm.

    Raises:
        UsageError: the directory cannot be created or written to.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot write to {directory}: {error.strerror}; name another --shards-dir DIR") from error
        if not os.access(directory, os.W_OK | os.X_OK):  # or the first finished shard would show it
            raise UsageError(f"cannot write to {directory}: no permission; name another --shards-dir DIR")

    def write(self, result: ShardResult) -> None:
        """Store a finished shard.

        Raises:
            UsageError: it cannot be written.
        """
        path = self._path(result.shard)
        try:
            write_atomically(path, encode_json(result) + b"\n")
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}; name another --shards-dir DIR") from error

    def read(self, shard: Shard) -> Optional[ShardResult]:
        """Return the stored result of ``shard``; ``None`` if there is none, or none that can be read."""
        try:
            found = decode_shard_result(self._path(shard).read_bytes())
        except (OSError, msgspec.MsgspecError):  # a damaged file costs its shard, which is judged again
            return None
        # A plan with other shards in front of it gives it another number.
        return found if found.shard.identity == shard.identity and found.shard.number == shard.number else None

    def lines(self, plan: ShardPlan) -> Iterator[bytes]:
        """Yield every shard of ``plan`` as one line of JSON, in order.

        Raises:
            InputError: one has been removed.
        """
        for shard in plan.shards:
            path = self._path(shard)
            try:
                yield path.read_bytes().rstrip(b"\n")
            except OSError as error:
                raise InputError(
                    f"cannot read the finished shard {path}: {error.strerror}; run the same command again"
                ) from error

    def _path(self, shard: Shard) -> Path:
        return self.directory / f"{shard.identity[:32]}.json"
