"""Which revision of the suite is running."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

REVISION_VARIABLE = "MODELZOO_REVISION"
"""Set in container images, which hold no repository."""


def suite_revision(checkout: Path, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the git commit of ``checkout``, followed by ``+`` if tracked files were changed since.

    Returns:
        MODELZOO_REVISION if it is set; ``None`` if ``checkout`` is not a git repository or there is no git.
    """
    named = environ.get(REVISION_VARIABLE)
    if named:
        return named
    if not (checkout / ".git").exists() or shutil.which("git") is None:
        return None
    commit = _git(checkout, "rev-parse", "HEAD")
    if commit is None:
        return None
    changed = _git(checkout, "status", "--porcelain", "--untracked-files=no")
    return f"{commit}+" if changed else commit


def _git(checkout: Path, *arguments: str) -> str | None:
    command = ["git", "-c", f"safe.directory={checkout}", "-C", str(checkout), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
