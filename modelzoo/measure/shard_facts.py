"""What the predictions of all shards of a data set depend on: a shard counts only where all of it is equal."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import asdict

from modelzoo.engines.protocol import Engine
from modelzoo.files import file_sha256
from modelzoo.records.run import Prepared
from modelzoo.setting import value_text
from modelzoo.version import __version__
from modelzoo.workload import Workload
from modelzoo.workload.checkpoints import REPOSITORY_FILES

LOCAL = ("weights", "input", "python", "image")
"""Fields of a setting that name files of a host; the weights' checksum and the versions say what they are."""
JUDGING = ("engines", "records", "validity", "workload")
"""The packages of the suite that decide what a shard holds. A checkout changes while its version stays the same."""
DIGITS = 12
"""Hexadecimal digits of a checksum that are shown."""


def shard_facts(prepared: Prepared, work: Workload, engine: Engine) -> dict[str, str]:
    """What all predictions depend on, as text by name. Not the host: its processor is recorded with each shard."""
    setting, weights = prepared.setting, Path(prepared.weights.path)
    suite = Path(__file__).parent.parent
    sources = [path for name in JUDGING for path in (suite / name).rglob("*.py")]
    found = {
        "modelzoo": __version__,
        "source code of modelzoo": _digest(suite, sources),
        "workload files": _digest(work.directory, work.directory.glob("*.py")),
        "weights": f"{prepared.weights.name} ({prepared.weights.sha256[:DIGITS]})",
    }
    if weights.is_dir():  # the model's layout and its tokenizer
        beside = [weights / name for name in REPOSITORY_FILES if (weights / name).is_file()]
        found["files beside the weights"] = _digest(weights, beside)
    found.update({name: version for name, version in engine.versions().items() if name != "python"})
    for name, value in asdict(setting).items():
        if name not in (*LOCAL, "options"):
            found[name.replace("_", "-")] = value_text(value)
    found.update({f"option {name}": value_text(value) for name, value in setting.options.items()})
    return found


def _digest(directory: Path, files: Iterable[Path]) -> str:
    """The checksum of the names and the contents of files."""
    whole = hashlib.sha256()
    for path in sorted(files):
        whole.update(f"{path.relative_to(directory)} {file_sha256(path)}\n".encode())
    return whole.hexdigest()[:DIGITS]
