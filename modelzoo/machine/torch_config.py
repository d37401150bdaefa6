"""How torch was built, from the text of ``torch.__config__.show()``."""

from __future__ import annotations

import re

from modelzoo.records.libraries import Build

_SPEED_FLAG = re.compile(r"-(O\d|Ofast|march=|mcpu=|mtune=|ffast-math|mavx|mfma)")
_RECORDED_SETTINGS = (
    "BLAS_INFO",
    "BUILD_TYPE",
    "LAPACK_INFO",
    "TORCH_VERSION",
    "USE_CUDA",
    "USE_EIGEN_FOR_BLAS",
    "USE_MKL",
    "USE_MKLDNN",
    "USE_MKLDNN_ACL",
    "USE_NNPACK",
    "USE_OPENMP",
    "USE_ROCM",
)


def parse_torch_config(text: str) -> Build:
    """Parse the output of ``torch.__config__.show()``."""

    def first_match(pattern: str) -> str | None:
        match = re.search(pattern, text)
        return match.group(1).strip() if match else None

    line = first_match(r"Build settings: (.*)") or ""
    settings = dict(re.findall(r"([A-Z0-9_]+)=([^,]*)(?:, |,?\s*$)", line))
    flags = settings.get("CXX_FLAGS", "").split()
    return Build(
        compiler=first_match(r"- ((?:GCC|clang|Clang|MSVC|icx?) [\d.]+)"),
        onednn=first_match(r"MKL-DNN v([\d.]+)"),
        mkl=first_match(r"Math Kernel Library Version ([\d.]+)"),
        openmp=first_match(r"OpenMP \d+ \(a\.k\.a\. OpenMP ([\d.]+)\)"),
        capability=first_match(r"CPU capability usage: (\S+)"),
        blas=settings.get("BLAS_INFO"),
        lapack=settings.get("LAPACK_INFO"),
        build_type=settings.get("BUILD_TYPE"),
        flags=tuple(flag for flag in flags if _SPEED_FLAG.match(flag)),
        settings={name: settings[name] for name in _RECORDED_SETTINGS if name in settings},
    )
