"""The rule that decides how bf16 is enabled, as a table."""

from __future__ import annotations

import pytest

from modelzoo.engines.torch.precision import requested_bf16_method, resolve_bf16_method
from modelzoo.setting import Setting

BF16 = Setting("bf16")
CUDA, BLAS, ONEDNN = BF16.replace(device="cuda"), BF16.replace(backend="blas"), BF16.replace(backend="onednn")
ARM, X86 = "aarch64", "x86_64"


@pytest.mark.parametrize(
    ("setting", "architecture", "has_onednn", "inherited_mode", "expected"),
    [
        # fp32 has no bf16 method, whatever the machine and the environment.
        (Setting(), ARM, True, "", None),
        (Setting(), X86, True, "bf16", None),
        # What --bf16=METHOD names is used everywhere.
        (Setting("bf16", "cast"), ARM, True, "bf16", "cast"),
        (Setting("bf16", "autocast"), ARM, True, "", "autocast"),
        (Setting("bf16", "fastmath"), X86, False, "", "fastmath"),
        # Left to the engine: fast math where ARM kernels of oneDNN run, else autocast.
        (BF16, ARM, True, "", "fastmath"),
        (BF16, "arm64", True, "", "fastmath"),
        (ONEDNN, ARM, True, "", "fastmath"),
        (BF16, ARM, False, "", "autocast"),
        (BF16, X86, True, "", "autocast"),
        (BLAS, ARM, True, "", "autocast"),
        # The device counts, on an ARM host too.
        (CUDA, ARM, True, "", "autocast"),
        (BF16.replace(device="cuda:1"), ARM, True, "", "autocast"),
        # DNNL_DEFAULT_FPMATH_MODE=BF16 with --bf16 asks for fast math if oneDNN computes.
        (BF16, X86, True, "bf16", "fastmath"),
        (BF16, ARM, True, "bf16", "fastmath"),
        (CUDA, ARM, True, "bf16", "autocast"),
        (BLAS, X86, True, "bf16", "autocast"),
        # Other modes of oneDNN are no request for bf16.
        (BF16, X86, True, "any", "autocast"),
        (BF16, X86, True, "strict", "autocast"),
        # tf32 keeps its tensors in fp32; fp16 has no fast math.
        (Setting("tf32", device="cuda"), X86, True, "bf16", None),
        (Setting("fp16"), ARM, True, "bf16", "autocast"),
        (Setting("fp16", "cast", device="cuda"), X86, True, "", "cast"),
    ],
)
def test_one_rule_decides(
    setting: Setting, architecture: str, has_onednn: bool, inherited_mode: str, expected: str | None
) -> None:
    """Precision, request, device, backend, architecture, torch's build and the inherited variable decide."""
    found = resolve_bf16_method(
        setting, architecture=architecture, has_onednn=has_onednn, inherited_mode=inherited_mode
    )
    assert found == expected


@pytest.mark.parametrize(
    ("setting", "inherited_mode", "expected"),
    [
        (Setting(), "bf16", None),
        (BF16, "", None),
        (BF16, "bf16", "fastmath"),
        (CUDA, "bf16", None),
        (Setting("bf16", "cast"), "bf16", "cast"),
    ],
)
def test_what_the_user_asked_for(setting: Setting, inherited_mode: str, expected: str | None) -> None:
    """The option comes first, then the variable; a choice of the engine is no request."""
    assert requested_bf16_method(setting, inherited_mode) == expected


@pytest.mark.parametrize("architecture", [ARM, X86])
@pytest.mark.parametrize("setting", [Setting(), BF16, CUDA, BLAS])
def test_what_was_resolved_stays_so(setting: Setting, architecture: str) -> None:
    """Resolving a resolved setting again, in a worker, changes nothing."""
    first = resolve_bf16_method(setting, architecture=architecture, has_onednn=True)
    resolved = setting.replace(bf16_method=first)
    assert resolve_bf16_method(resolved, architecture=X86, has_onednn=False) == first
