"""What is stored: runs as versioned JSON. Knows nothing of torch.

One file holds one call of the suite. It is written again, atomically, after every run, so that
whatever happens to the next run the file on disk is complete.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from modelzoo.errors import InputError, UsageError
from modelzoo.files import write_atomically
from modelzoo.version import __version__

SCHEMA = "modelzoo-result/1"
Key = tuple[str, str]
"""Workload, and setting as JSON text."""
SCHEMA_FILE = Path(__file__).with_name("result.schema.json")


@dataclass(frozen=True)
class Run:
    """One process that measured one workload under one setting.

    ``report`` is what the worker said (see ``modelzoo.measure.worker.Report``), or ``None`` where it failed;
    ``error`` is then the reason, in one line, and ``error_kind`` its class in ``modelzoo.errors``.
    ``asked`` is the setting as it was asked for.
    """

    workload: str
    asked: dict[str, Any]
    round: int
    started: str
    report: dict[str, Any] | None = None
    error: str | None = None
    error_kind: str | None = None

    @property
    def steady(self) -> list[float]:
        """Seconds of the steady samples; empty where the run failed or could not time."""
        return list(self.report["phases"]["steady"]) if self.report and self.report["phases"] else []

    @property
    def advice(self) -> list[dict[str, str]]:
        return list(self.report["advice"]) if self.report else []


@dataclass(frozen=True)
class Result:
    """All runs of one call, with the call itself.

    ``asked`` lists ``workload`` and ``setting`` of all that was asked for, each workload's baseline first; runs come
    in the order in which they ended.
    """

    command: tuple[str, ...]
    created: str
    runs: tuple[Run, ...] = ()
    version: str = __version__
    schema: str = SCHEMA
    validity: tuple[dict[str, Any], ...] = field(default=())
    asked: tuple[dict[str, Any], ...] = field(default=())

    def plus(self, run: Run) -> Result:
        return replace(self, runs=(*self.runs, run))

    def plus_validity(self, entry: dict[str, Any]) -> Result:
        return replace(self, validity=(*self.validity, entry))

    def judged(self) -> dict[Key, dict[str, Any]]:
        """The entries of ``validity``, under the same keys as ``groups``."""
        return {key(entry["workload"], entry["asked"]): entry for entry in self.validity}

    def groups(self) -> dict[Key, list[Run]]:
        """Runs by workload and setting, in the order in which these were asked for; by round."""
        found: dict[Key, list[Run]] = {key(entry["workload"], entry["setting"]): [] for entry in self.asked}
        for run in sorted(self.runs, key=lambda run: run.round):
            found.setdefault(key(run.workload, run.asked), []).append(run)
        return {each: runs for each, runs in found.items() if runs}


def key(workload: str, asked: dict[str, Any]) -> Key:
    """What tells the rows of a table apart: the workload and its setting as JSON text."""
    return workload, json.dumps(asked, sort_keys=True)


def now() -> str:
    """The time in UTC, ISO 8601, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def plain(value: Any) -> Any:
    """``value`` as JSON can hold it: infinities and NaN become ``None``, paths and tuples plain."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Path):
        return str(value)
    return value


def write(result: Result, path: Path) -> None:
    """Write ``result`` to ``path`` atomically: a reader sees the old file or the new one, whole.

    Raises:
        UsageError: the file or its directory cannot be written to.
    """
    text = json.dumps(plain(asdict(result)), indent=1, allow_nan=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot write results to {path.parent}: {error.strerror}; name another place by --json FILE"
        ) from error
    try:
        write_atomically(path, text + "\n")
    except OSError as error:  # no permission, the disk is full, or ``path`` is a directory
        raise UsageError(f"cannot write {path}: {error.strerror}; name another place by --json FILE") from error



def read(path: Path) -> Result:
    """Read a stored result.

    Raises:
        InputError: there is no such file, or it is not a result of this version.
    """
    try:
        data = json.loads(path.read_text())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path} is not JSON ({error}); give a file that modelzoo wrote") from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        found = data.get("schema") if isinstance(data, dict) else None
        raise InputError(f"{path} is not a result of {SCHEMA} (its schema: {found})")
    for entry in (*data.get("runs", ()), *data.get("validity", ()), *data.get("asked", ())):
        _rename_bf16_method(entry)
    try:
        return Result(
            command=tuple(data["command"]),
            created=data["created"],
            runs=tuple(Run(**run) for run in data["runs"]),
            version=data["version"],
            schema=data["schema"],
            validity=tuple(data.get("validity", ())),
            asked=tuple(data.get("asked", ())),
        )
    except (KeyError, TypeError) as error:
        raise InputError(f"{path} is no whole result ({error}); give a file that modelzoo wrote") from error


def _rename_bf16_method(entry: Any) -> None:
    """Results written before the field had its present name call it ``way``."""
    if not isinstance(entry, dict):
        return
    report = entry.get("report")
    inside = report.get("setting") if isinstance(report, dict) else None
    for setting in (entry.get("asked"), entry.get("setting"), inside):
        if isinstance(setting, dict) and "way" in setting:
            setting["bf16_method"] = setting.pop("way")


def merged(results: Iterable[Result]) -> tuple[Run, ...]:
    """All runs of several results, in order."""
    return tuple(run for result in results for run in result.runs)
