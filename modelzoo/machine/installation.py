"""What is installed: torch and torchvision, or in one line why they cannot be used, and numerical libraries.

Libraries are recognized from the installed and loaded files, never from the name of an image.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import mmap
import platform
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from modelzoo.errors import EnvironmentProblem, first_line
from modelzoo.frozen import replace
from modelzoo.machine.linux import FILESYSTEM_ROOT, read_text
from modelzoo.records.equipment import Build, ComputeLibrary, Libraries, Library, openblas_limit

OLDEST_TORCH = 2, 6
ACCEPTS_NEWER_TORCH = 0, 29
"""The first release of torchvision that does not require one release of torch (0.29.1 requires ``torch>=2.14.0``)."""


def installed_version(distribution: str) -> str | None:
    """Return the version of a distribution, or ``None`` if it is not installed."""
    from importlib import metadata  # it takes longer to import than most of this package

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def installed_release(distribution: str) -> tuple[int, int]:
    """Return the first two numbers of the version of a distribution; zeros if it is not installed.

    Everything that depends on torch's version, or another's, asks this function.
    """
    return _release(installed_version(distribution) or "") or (0, 0)


def import_torch() -> ModuleType:
    """Import torch.

    Raises:
        EnvironmentProblem: it is not installed, cannot be loaded or is too old. The message says how to fix it.
    """
    try:
        torch = importlib.import_module("torch")
    except Exception as error:
        raise EnvironmentProblem(explain_torch_failure(error)) from error
    release = _release(torch.__version__)
    if release is not None and release < OLDEST_TORCH:
        raise EnvironmentProblem(
            f"torch {torch.__version__} is too old: this suite needs {'.'.join(map(str, OLDEST_TORCH))} or newer; run "
            "pip install --upgrade torch torchvision"
        )
    return torch


def import_torchvision() -> ModuleType:
    """Import torchvision, without torch's compiler.

    Raises:
        EnvironmentProblem: it is not installed or does not match torch. The message says how to fix it.
    """
    import_torch()
    try:
        return without_compiler("torchvision")
    except Exception as error:
        raise EnvironmentProblem(explain_torchvision_failure(error)) from error


def without_compiler(name: str) -> ModuleType:
    """Import a module that names ``is_compile_supported`` of ``torch._dynamo.utils`` without importing the compiler.

    ``torchvision.ops.roi_align`` calls it only where torchvision's own kernel is missing; ``torch._dynamo`` takes half
    as much CPU time to import as torch itself, and eager mode needs nothing of it. It is imported as soon as that
    function is called, or anything else is taken from there.
    """
    utilities = "torch._dynamo.utils"
    stand_in = ModuleType(utilities)

    def forget() -> None:
        if sys.modules.get(utilities) is stand_in:
            del sys.modules[utilities]

    def taken(attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        forget()
        return getattr(importlib.import_module(utilities), attribute)

    vars(stand_in).update(
        __getattr__=taken, is_compile_supported=lambda device_type: taken("is_compile_supported")(device_type)
    )
    if "torch._dynamo" not in sys.modules:
        # A module that is known by its full name is taken without importing its package.
        sys.modules[utilities] = stand_in
    try:
        return importlib.import_module(name)
    finally:
        forget()


def mismatched_versions(torch_version: str, torchvision_version: str) -> str | None:
    """Return one line that says how to fix it if torch and torchvision are of different releases, else ``None``.

    torch 2.N matches torchvision 0.(15+N), as 2.10 and 0.25 (source: the table in torchvision's README). torchvision
    accepts newer releases of torch from ``ACCEPTS_NEWER_TORCH`` on. Other versions are not judged.
    """
    torch, vision = _release(torch_version), _release(torchvision_version)
    if torch is None or vision is None or torch[0] != 2:
        return None
    wanted = 0, 15 + torch[1]
    if wanted == vision or ACCEPTS_NEWER_TORCH <= vision < wanted:
        return None
    return (
        f"torch {torch_version} does not go with torchvision {torchvision_version}: "
        f'run pip install "torchvision=={wanted[0]}.{wanted[1]}.*"'
    )


def explain_torch_failure(error: Exception) -> str:
    """Return one line that says why ``import torch`` failed and how to fix it."""
    text = _one_line(error)
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        return "PyTorch is not installed: run pip install torch torchvision"
    if "backend extension" in text or "torch_npu" in text:
        return (
            f"PyTorch cannot load a device backend ({text}): install that device's driver, or set "
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0 to run on the CPU"
        )
    return f"PyTorch cannot be imported ({text}): reinstall it with pip install --force-reinstall torch"


def explain_torchvision_failure(error: Exception) -> str:
    """Return one line that says why ``import torchvision`` failed and how to fix it."""
    text = _one_line(error)
    if isinstance(error, ModuleNotFoundError) and error.name == "torchvision":
        return "torchvision is not installed: run pip install torchvision"
    torch_version, torchvision_version = (installed_version(each) or "?" for each in ("torch", "torchvision"))
    mismatch = mismatched_versions(torch_version, torchvision_version)
    if mismatch is not None:
        return mismatch
    if "torchvision::" in text or "undefined symbol" in text or "custom C++ ops" in text:
        return (
            f"torchvision {torchvision_version} was built for another build of torch than {torch_version}: "
            f"install both from one index, pip install --force-reinstall torch==={torch_version.partition('+')[0]} "
            f"torchvision=={torchvision_version.partition('+')[0]}"
        )
    return f"torchvision cannot be imported ({text}): run pip install --force-reinstall torchvision"


def _release(version: str) -> tuple[int, int] | None:
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match.group(1)), int(match.group(2))) if match else None


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {first_line(error)}"[:300]


RECORDED_PACKAGES = (
    *("torch", "torchvision", "transformers", "tokenizers", "safetensors", "numpy", "pillow", "pycocotools"),
    *("torch_npu", "torchao"),
)
"""Packages that affect the predictions, the judgement of them, or the speed."""
_BLAS_LIBRARIES = ("mkl", "openblas", "nvpl", "blis")
_BUNDLED_FILES = {
    "acl": "libarm_compute",
    "openblas": "libopenblas",
    "mkl": "libmkl_",
    "nvpl": "libnvpl_blas",
    "blis": "libblis",
}


_OPENBLAS_CONFIGURATION = [f"{by}openblas_get_config{bits}" for by in ("", "scipy_") for bits in ("", "64_")]
"""Its name without and with 64-bit integers, and in the builds of numpy and scipy."""


def read_libraries() -> Libraries:
    """Collect versions, torch's build and the loaded libraries; imports torch.

    Raises:
        EnvironmentProblem: torch cannot be imported.
    """
    torch = import_torch()
    backends = torch.backends
    build = parse_torch_config(torch.__config__.show())
    bundled = find_bundled_libraries(Path(torch.__file__ or "").resolve().parent)
    acl = _find_acl(torch, bundled)
    found = read_engine_libraries(f"torch {torch.__version__}: {build.line}", "", torch.get_num_threads())
    onednn, mkl = backends.mkldnn.is_available(), backends.mkl.is_available()
    return replace(
        found,
        build=build,
        onednn=onednn,
        mkl=mkl,
        openmp=backends.openmp.is_available(),
        acl=acl,
        backends=list_backends(
            onednn=onednn, mkl=mkl, acl=acl is not None, bundled=bundled, loaded=found.loaded, blas=build.blas
        ),
        interop_threads=torch.get_num_interop_threads(),
    )


def read_engine_libraries(build_line: str, backend: str, threads: int) -> Libraries:
    """Collect versions and the loaded libraries for an engine other than torch; the record of torch's build is empty.

    Args:
        build_line: its version, and how it was built.
        backend: what it computes with.
        threads: of an operator.
    """
    loaded = tuple(loaded_libraries())
    return Libraries(
        versions=package_versions(),
        build=parse_torch_config(""),
        build_line=build_line,
        onednn=False,
        mkl=False,
        openmp=False,
        acl=None,
        backends=(backend,),
        loaded=loaded,
        two_openmp=sum(library.api == "openmp" for library in loaded) > 1,
        threads=threads,
        interop_threads=1,
    )


def loaded_libraries() -> list[Library]:
    """The BLAS and OpenMP libraries of this process, by their files; the order of threadpoolctl differs by the call."""
    import threadpoolctl

    return sorted(map(describe_library, threadpoolctl.threadpool_info()), key=lambda library: library.file)


def supported_threads(count: int) -> int:
    """Return ``count``, or the number of threads that torch's OpenBLAS was built for if that is lower.

    torch must have been imported: an OpenBLAS that is not loaded is not known.
    """
    limit = openblas_limit(loaded_libraries())
    return count if limit is None else min(count, limit)


def describe_library(entry: Mapping[str, Any]) -> Library:
    """Turn an entry of ``threadpoolctl.threadpool_info()`` into a record, without private paths.

    Its owner is the Python package that contains it (``numpy`` for ``…/site-packages/numpy.libs/x.so``), or ``system``.
    An OpenBLAS is asked how it was built.
    """
    path, limit = Path(entry["filepath"]), None
    packages = re.findall(r"/(?:site|dist)-packages/([^/.]+)[^/]*/", str(path))
    if entry["internal_api"] == "openblas":
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(str(path))  # it is loaded already
            for function in filter(None, (getattr(library, name, None) for name in _OPENBLAS_CONFIGURATION)):
                function.restype = ctypes.c_char_p
                limit = re.search(rb"\bMAX_THREADS=(\d+)", function())
    return Library(
        api=entry["user_api"],
        kind=entry["internal_api"],
        version=entry.get("version"),
        architecture=entry.get("architecture"),
        threading=entry.get("threading_layer"),
        threads=entry["num_threads"],
        owner=packages[0] if packages else "system",
        file=path.name,
        limit=int(limit[1]) if limit else None,
    )


def find_bundled_libraries(folder: Path) -> dict[str, str]:
    """Return the libraries that a wheel of torch contains, as name to path, in ``torch/lib`` or beside it.

    Args:
        folder: the directory of the package.
    """
    found: dict[str, str] = {}
    for place in (folder / "lib", folder.parent / f"{folder.name}.libs"):
        for name, prefix in _BUNDLED_FILES.items():
            for file in sorted(place.glob(f"{prefix}*.so*")):
                found.setdefault(name, str(file))
    return found


def list_backends(
    *,
    onednn: bool,
    mkl: bool,
    acl: bool,
    bundled: dict[str, str],
    loaded: tuple[Library, ...] = (),
    blas: str | None = None,
) -> tuple[str, ...]:
    """Return what torch can compute with: ``onednn+acl``, ``onednn``, ``mkl``, ``openblas`` ….

    A BLAS that another package contains, such as numpy's OpenBLAS, is not used by torch.
    """
    found = ["onednn+acl" if acl else "onednn"] if onednn else []
    if mkl:
        found.append("mkl")
    found += [name for name in ("openblas", "nvpl", "blis") if name in bundled]
    for library in loaded:
        if library.api == "blas" and library.owner in ("torch", "system") and library.kind not in found:
            found.append(library.kind)
    # If OpenBLAS is linked statically, only the build line shows it.
    if blas and not any(name in found for name in _BLAS_LIBRARIES):
        found.append({"open": "openblas"}.get(blas, blas))
    return tuple(found)


def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the installed ``RECORDED_PACKAGES``, without importing any."""
    installed = {name: installed_version(name) for name in RECORDED_PACKAGES}
    return {
        "python": platform.python_version(),
        **{name: version for name, version in installed.items() if version is not None},
    }


def _find_acl(torch: ModuleType, bundled: Mapping[str, str]) -> ComputeLibrary | None:
    """Return how the Arm Compute Library was recognized, or ``None``. The build line never names it."""
    maps = read_text(FILESYSTEM_ROOT / "proc/self/maps") or ""
    mapped = re.search(r"(/\S*/libarm_compute[^/\s]*)$", maps, re.MULTILINE)
    if mapped or "acl" in bundled:
        path = Path(mapped[1] if mapped else bundled["acl"])
        return ComputeLibrary(path.name, is_loaded=mapped is not None, version=read_acl_version(path))
    is_acl_available = getattr(torch.backends.mkldnn, "is_acl_available", None)
    return ComputeLibrary(None, is_loaded=True) if is_acl_available is not None and is_acl_available() else None


def read_acl_version(path: Path) -> str | None:
    """Return the version in a file of the Arm Compute Library (``arm_compute_version=v52.6.0``), or ``None``."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            version = re.search(rb"arm_compute_version=v([1-9]\d*\.\d+[\d.]*)", content)
            return version[1].decode() if version else None
    except (OSError, ValueError):  # no such file, or an empty one
        return None


_SPEED_FLAG = re.compile(r"-(O\d|Ofast|march=|mcpu=|mtune=|ffast-math|mavx|mfma)")
_RECORDED_SETTINGS = (
    *("BLAS_INFO", "BUILD_TYPE", "LAPACK_INFO", "TORCH_VERSION", "USE_CUDA", "USE_EIGEN_FOR_BLAS", "USE_MKL"),
    *("USE_MKLDNN", "USE_MKLDNN_ACL", "USE_NNPACK", "USE_OPENMP", "USE_ROCM"),
)


def parse_torch_config(text: str) -> Build:
    """Parse the output of ``torch.__config__.show()``."""
    patterns = {
        "compiler": r"- ((?:GCC|clang|Clang|MSVC|icx?) [\d.]+)",
        "onednn": r"MKL-DNN v([\d.]+)",
        "mkl": r"Math Kernel Library Version ([\d.]+)",
        "openmp": r"OpenMP \d+ \(a\.k\.a\. OpenMP ([\d.]+)\)",
        "capability": r"CPU capability usage: (\S+)",
    }
    found = {name: re.search(pattern, text) for name, pattern in patterns.items()}
    line = re.search(r"Build settings: (.*)", text)
    settings = dict(re.findall(r"([A-Z0-9_]+)=([^,]*)(?:, |,?\s*$)", line[1] if line else ""))
    flags = settings.get("CXX_FLAGS", "").split()
    return Build(
        **{name: match and match[1] for name, match in found.items()},
        blas=settings.get("BLAS_INFO"),
        lapack=settings.get("LAPACK_INFO"),
        build_type=settings.get("BUILD_TYPE"),
        flags=tuple(flag for flag in flags if _SPEED_FLAG.match(flag)),
        settings={name: settings[name] for name in _RECORDED_SETTINGS if name in settings},
    )
