"""Programs that tests call, programs that they make up, and small wheels for what installs them."""

from __future__ import annotations

import os
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

SECONDS = 900
"""An upper limit for what would otherwise be waited for for ever."""


def ran(
    *command: object, cwd: Path | None = None, environ: Mapping[str, str] | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Call a program, with these variables besides those of ``environ``, by default of this process."""
    words, own = list(map(str, command)), {**(os.environ if environ is None else environ), **variables}
    return subprocess.run(words, cwd=cwd, env=own, capture_output=True, text=True, timeout=SECONDS, check=False)


def program(path: Path, text: str) -> None:
    """Write a script that can be called."""
    path.write_text(text)
    path.chmod(0o755)


def wheel(folder: Path, name: str, version: str, tag: str, requires: str = "") -> Path:
    """Write a wheel of one module that contains its own version and tag."""
    file = folder / f"{name}-{version}-{tag}.whl"
    info = f"{name}-{version}.dist-info"
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{name}.py", f"SEEN = {(version, tag)!r}\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        archive.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n")
        archive.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return file
