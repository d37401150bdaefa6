"""Which numerical libraries are loaded, and whether the installation goes together.

Backends are recognised from what is there and loaded, never from an image's name.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import platform
import re
from pathlib import Path
from typing import Any

from modelzoo.errors import EnvironmentProblem
from modelzoo.machine import linux
from modelzoo.machine.linux import ROOT
from modelzoo.records.libraries import Build, Libraries, Library

RECORDED = ("torch", "torchvision", "transformers", "numpy", "torch_npu")


def facts() -> Libraries:
    """Collect the facts; imports torch.

    Raises:
        EnvironmentProblem: torch cannot be imported.
    """
    torch = import_torch()
    import threadpoolctl

    # threadpoolctl's order differs from call to call.
    loaded = tuple(sorted((library(entry) for entry in threadpoolctl.threadpool_info()), key=lambda each: each.file))
    build = parse_config(torch.__config__.show())
    folder = Path(torch.__file__).resolve().parent
    acl_evidence = _acl(torch, folder)
    onednn = _available(torch, "mkldnn")
    mkl = _available(torch, "mkl")
    return Libraries(
        versions=versions(),
        build=build,
        build_line=f"torch {torch.__version__}: {build.line}",
        onednn=onednn,
        mkl=mkl,
        openmp=_available(torch, "openmp"),
        acl=acl_evidence is not None,
        acl_evidence=acl_evidence,
        backends=backends(onednn, mkl, acl_evidence is not None, bundled(folder), loaded, build.blas),
        loaded=loaded,
        two_openmp=sum(1 for entry in loaded if entry.api == "openmp") > 1,
        threads=torch.get_num_threads(),
        interop_threads=torch.get_num_interop_threads(),
    )


def library(entry: dict[str, Any]) -> Library:
    """Turn one entry of ``threadpoolctl.threadpool_info()`` into a ``Library``, without private paths."""
    path = Path(str(entry.get("filepath") or entry.get("prefix") or "?"))
    return Library(
        api=str(entry["user_api"]),
        kind=str(entry["internal_api"]),
        version=entry.get("version"),
        architecture=entry.get("architecture"),
        threading=entry.get("threading_layer"),
        threads=int(entry["num_threads"]),
        owner=owner(path),
        file=path.name,
    )


def owner(path: Path) -> str:
    """Name the Python package whose file ``path`` is: ``…/site-packages/numpy.libs/x.so`` is numpy's."""
    parts = path.parts
    for index, part in enumerate(parts[:-1]):
        if part in ("site-packages", "dist-packages") and index + 2 < len(parts):
            return parts[index + 1].partition(".")[0]
    return "system"


_FLAG = re.compile(r"^-(O\d|Ofast|march=|mcpu=|mtune=|ffast-math|mavx|mfma)")


def parse_config(text: str) -> Build:
    """Parse ``torch.__config__.show()``."""

    def find(pattern: str) -> str | None:
        match = re.search(pattern, text)
        return match.group(1).strip() if match else None

    line = find(r"Build settings: (.*)") or ""
    settings = dict(re.findall(r"([A-Z0-9_]+)=([^,]*)(?:, |,?\s*$)", line))
    flags = settings.pop("CXX_FLAGS", "").split()
    kept = ("BLAS_INFO", "LAPACK_INFO", "BUILD_TYPE", "TORCH_VERSION")
    wanted = {
        name: value
        for name, value in settings.items()
        if name in kept or re.match(r"USE_(MKL|MKLDNN|MKLDNN_ACL|OPENMP|CUDA|ROCM|EIGEN_FOR_BLAS|NNPACK)$", name)
    }
    openmp = find(r"OpenMP \d+ \(a\.k\.a\. OpenMP ([\d.]+)\)")
    return Build(
        compiler=find(r"- ((?:GCC|clang|Clang|MSVC|icx?) [\d.]+)"),
        onednn=find(r"MKL-DNN v([\d.]+)"),
        mkl=find(r"Math Kernel Library Version ([\d.]+)"),
        openmp=openmp,
        capability=find(r"CPU capability usage: (\S+)"),
        blas=settings.get("BLAS_INFO"),
        lapack=settings.get("LAPACK_INFO"),
        build_type=settings.get("BUILD_TYPE"),
        flags=tuple(flag for flag in flags if _FLAG.match(flag)),
        settings=wanted,
    )


_BUNDLED = {
    "acl": ("libarm_compute",),
    "openblas": ("libopenblas",),
    "mkl": ("libmkl_",),
    "nvpl": ("libnvpl_blas",),
    "blis": ("libblis",),
}


def bundled(folder: Path) -> dict[str, str]:
    """Find the libraries that a torch wheel brings along: name to file.

    ``folder`` is the package's directory; wheels put them into ``torch/lib`` or ``torch.libs`` beside it.
    """
    found: dict[str, str] = {}
    for place in (folder / "lib", folder.parent / f"{folder.name}.libs"):
        for name, prefixes in _BUNDLED.items():
            for prefix in prefixes:
                for file in sorted(place.glob(f"{prefix}*.so*")):
                    found.setdefault(name, file.name)
    return found


def backends(
    onednn: bool,
    mkl: bool,
    acl: bool,
    files: dict[str, str],
    loaded: tuple[Library, ...] = (),
    blas: str | None = None,
) -> tuple[str, ...]:
    """Name what torch can compute with: ``onednn+acl``, ``onednn``, ``mkl``, ``openblas`` …

    A BLAS that another package brought for itself (numpy's OpenBLAS) is not torch's.
    """
    found = ["onednn+acl" if acl else "onednn"] if onednn else []
    if mkl:
        found.append("mkl")
    found += [name for name in ("openblas", "nvpl", "blis") if name in files]
    for entry in loaded:
        if entry.api == "blas" and entry.owner in ("torch", "system") and entry.kind not in found:
            found.append(entry.kind)
    # A build against an OpenBLAS that is linked statically shows in the build line only.
    if not any(name in ("mkl", "openblas", "nvpl", "blis") for name in found) and blas:
        found.append({"open": "openblas"}.get(blas, blas))
    return tuple(found)


def versions() -> dict[str, str]:
    """Return the installed versions of what decides a number, without importing any of it."""
    found = {"python": platform.python_version()}
    for name in RECORDED:
        version = installed(name)
        if version is not None:
            found[name] = version
    return found


def installed(name: str) -> str | None:
    """Return a distribution's version, or ``None`` where it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


# --- installations that do not go together -------------------------------------------------------


def check_pair(torch_version: str, torchvision_version: str) -> str | None:
    """Return one line naming the cure where torch and torchvision are not of one release, else ``None``.

    torch 1.13 goes with torchvision 0.14, and 2.N with 0.(15+N): 2.0 with 0.15, 2.10 with 0.25, 2.13
    with 0.28 (source: the table in torchvision's README). Other versions are not judged.
    """
    torch, vision = _minor(torch_version), _minor(torchvision_version)
    if torch is None or vision is None:
        return None
    wanted = _vision_for(torch)
    if wanted is None or wanted == vision:
        return None
    return (
        f"torch {torch_version} does not go with torchvision {torchvision_version}: "
        f'run pip install "torchvision=={wanted[0]}.{wanted[1]}.*"'
    )


def import_torch() -> Any:
    """Import torch.

    Raises:
        EnvironmentProblem: it is not installed or cannot be loaded; the message names the cure.
    """
    try:
        return importlib.import_module("torch")
    except Exception as error:
        raise EnvironmentProblem(torch_problem(error)) from error


def import_torchvision() -> Any:
    """Import torchvision, and make sure that its compiled operators are there.

    Raises:
        EnvironmentProblem: it is not installed or does not go with torch; the message names the cure.
    """
    import_torch()
    try:
        vision = importlib.import_module("torchvision")
        extension = importlib.import_module("torchvision.extension")
    except Exception as error:
        raise EnvironmentProblem(torchvision_problem(error)) from error
    has_ops = getattr(extension, "_has_ops", None)
    # Old versions import without their operators and fail at the first NMS.
    if has_ops is not None and not has_ops():
        raise EnvironmentProblem(torchvision_problem(RuntimeError("operator torchvision::nms does not exist")))
    return vision


def torch_problem(error: BaseException) -> str:
    """Turn a failed ``import torch`` into one line that names the cure."""
    text = _one_line(error)
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        return "PyTorch is not installed: run pip install torch torchvision"
    if "backend extension" in text or "torch_npu" in text:
        return (
            f"PyTorch cannot load a device backend ({text}): install that device's driver, or set "
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0 to run on the CPU"
        )
    if isinstance(error, ImportError) and "numpy" in text.lower():
        return f'PyTorch and numpy do not go together ({text}): run pip install "numpy<2"'
    return f"PyTorch cannot be imported ({text}): reinstall it with pip install --force-reinstall torch"


def torchvision_problem(
    error: BaseException, torch_version: str | None = None, torchvision_version: str | None = None
) -> str:
    """Turn a failed ``import torchvision`` into one line; versions are the installed ones by default."""
    text = _one_line(error)
    if isinstance(error, ModuleNotFoundError) and error.name == "torchvision":
        return "torchvision is not installed: run pip install torchvision"
    torch_version = torch_version or installed("torch") or "?"
    torchvision_version = torchvision_version or installed("torchvision") or "?"
    mismatch = check_pair(torch_version, torchvision_version)
    if mismatch is not None:
        return mismatch
    if "torchvision::" in text or "undefined symbol" in text or "custom C++ ops" in text:
        plain = torch_version.partition("+")[0]
        return (
            f"torchvision {torchvision_version} was built for another build of torch than {torch_version}: "
            f"install both from one index, pip install --force-reinstall torch==={plain} "
            f"torchvision=={torchvision_version.partition('+')[0]}"
        )
    return f"torchvision cannot be imported ({text}): run pip install --force-reinstall torchvision"


def _vision_for(torch: tuple[int, int]) -> tuple[int, int] | None:
    if torch[0] == 2:
        return 0, 15 + torch[1]
    if torch[0] == 1 and torch[1] >= 4:
        return 0, torch[1] + 1
    return None


def _minor(version: str) -> tuple[int, int] | None:
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match.group(1)), int(match.group(2))) if match else None


def _one_line(error: BaseException) -> str:
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {text}"[:300]


def _available(torch: Any, name: str) -> bool:
    module = getattr(torch.backends, name, None)
    return bool(module is not None and module.is_available())


def _acl(torch: Any, folder: Path) -> str | None:
    """Say by what the Arm Compute Library was recognised, or ``None``. The build line never names it."""
    maps = linux.read(ROOT / "proc/self/maps") or ""
    mapped = re.search(r"/(libarm_compute[^/\s]*)$", maps, re.MULTILINE)
    if mapped:
        return f"{mapped.group(1)} is loaded"
    file = bundled(folder).get("acl")
    if file is not None:
        return f"{file} comes with torch"
    asked = getattr(torch.backends.mkldnn, "is_acl_available", None)
    if asked is not None and asked():
        return "torch.backends.mkldnn.is_acl_available()"
    return None
