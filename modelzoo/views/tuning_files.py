"""Write what a search found beside its result: a file for ``--setting @FILE``, and Python for a server."""

from __future__ import annotations

import shlex
from pathlib import Path

from modelzoo.errors import UsageError
from modelzoo.files import write_atomically
from modelzoo.records.run import Result
from modelzoo.views import recipe, tuning


def write(result: Result, path: Path, workload: str, script: str) -> list[str]:
    """Write the files of the setting that is recommended; return lines that say how to use it.

    Args:
        result: of a complete search.
        path: the result's file.
        workload: what the command line calls it.
        script: how the workload gets a graph (``Workload.script``).

    Raises:
        UsageError: a file cannot be written.
    """
    report = tuning.winning_report(result)
    if report is None:
        return []
    said = tuning.speed_sentence(result)
    settings, code = path.with_suffix(".setting"), path.with_suffix(".py")
    try:
        write_atomically(settings, recipe.settings_file(report, said))
        lines = recipe.python(report, said, script)
        if lines is not None:
            write_atomically(code, lines)
    except OSError as error:
        reason = f"cannot write {settings} or {code}: {error.strerror}"
        raise UsageError(f"{reason}; name another file with --json FILE") from error
    command = f"modelzoo run {shlex.quote(workload)} --setting {shlex.quote(recipe.words(recipe.explicit(report)))}"
    return [
        f"command line: {command}",
        f"settings file: {settings}, for --setting {shlex.quote('@' + str(settings))}",
        f"Python: {code}" if lines is not None else f"Python: see docs/engines.md for {report.setting.engine}",
    ]
