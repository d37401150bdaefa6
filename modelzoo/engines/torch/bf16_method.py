"""How bf16 and fp16 are enabled: the one rule, as pure functions.

``fastmath`` keeps fp32 tensors and lets oneDNN's kernels round internally. ``autocast`` converts operands as
``torch.autocast`` does. ``cast`` converts the whole model.
"""

from __future__ import annotations

from modelzoo.setting import Setting

ARM = ("aarch64", "arm64")


def uses_onednn(setting: Setting) -> bool:
    """Whether oneDNN may compute the operators of ``setting``: on the CPU, unless it is switched off."""
    return setting.device == "cpu" and setting.backend != "blas"


def requested_bf16_method(setting: Setting, inherited_mode: str = "") -> str | None:
    """The method that the user asked for, or ``None`` if the choice is left to the engine.

    Args:
        setting: ``setting.bf16_method`` is what ``--bf16=METHOD`` named.
        inherited_mode: oneDNN's math mode in the environment of the call. ``bf16`` together with ``--bf16`` asks for
            fast math, provided that oneDNN computes at all.
    """
    if setting.precision != "bf16":
        return None
    if setting.bf16_method is not None:
        return setting.bf16_method
    return "fastmath" if inherited_mode == "bf16" and uses_onednn(setting) else None


def resolve_bf16_method(
    setting: Setting, *, architecture: str, has_onednn: bool, inherited_mode: str = ""
) -> str | None:
    """The method that ``setting`` runs with; ``None`` for fp32 and tf32, whose tensors are fp32.

    fp16 is enabled by autocast unless the model is to be cast.

    For bf16 without a request it is fast math on ARM CPUs with oneDNN, and autocast everywhere else. On x86, oneDNN's
    fast math keeps using fp32 kernels; OpenBLAS has bf16 kernels for bf16 tensors only; accelerators have bf16 kernels
    of their own.

    Args:
        setting: precision, device, backend and the method that was asked for.
        architecture: as ``platform.machine()`` names it.
        has_onednn: whether this torch was built with oneDNN.
        inherited_mode: see ``requested_bf16_method``.
    """
    if setting.precision == "fp16":
        return setting.bf16_method or "autocast"
    if setting.precision != "bf16":
        return None
    requested = requested_bf16_method(setting, inherited_mode)
    if requested is not None:
        return requested
    return "fastmath" if architecture in ARM and has_onednn and uses_onednn(setting) else "autocast"
