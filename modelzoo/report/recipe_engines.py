"""Python that runs an exported model like a process that was measured, by engine. Pure."""

from __future__ import annotations

from modelzoo.records.run import RunReport


def lines(report: RunReport) -> list[str]:
    """Return the lines, without imports of this suite."""
    setting = report.setting
    return [f"# engine={setting.engine}: see docs/engines.md"]
