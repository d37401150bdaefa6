"""What engines other than torch have in common: they run a model on the CPU in the one way that is theirs."""

from __future__ import annotations

from modelzoo.errors import UsageError
from modelzoo.setting import Setting


def require_plain(setting: Setting, engine: str) -> None:
    """Check that ``setting`` asks for nothing that only torch has.

    Args:
        setting: as asked for.
        engine: its name in the message.

    Raises:
        UsageError: it asks for a device, mode, backend or memory format.
    """
    plain = Setting()
    asked = {
        f"--device {setting.device}": setting.device != plain.device,
        f"--mode {setting.mode}": setting.mode != plain.mode,
        f"--backend {setting.backend}": setting.backend != plain.backend,
        "--channels-last": setting.channels_last,
    }
    for option, is_asked in asked.items():
        if is_asked:
            raise UsageError(
                f"{option} is an option of torch, and {engine} runs on the CPU in a way of its own; leave it out, or "
                "use --engine torch"
            )
