"""How torch was built, from recorded build lines."""

from __future__ import annotations

from planted import recorded

from modelzoo.machine.libraries import parse_torch_config


def test_the_build_line_of_an_x86_wheel() -> None:
    """Versions, BLAS and the vector extension in use are parsed."""
    build = parse_torch_config(recorded("torch-2.10-x86.config"))
    assert (build.compiler, build.onednn, build.mkl) == ("GCC 13.3", "3.7.1", "2024.2")
    assert (build.openmp, build.capability, build.blas) == ("4.5", "AVX512", "mkl")
    assert build.flags == ("-O2",)
    assert build.settings["USE_MKLDNN"] == "ON"
    assert "oneDNN 3.7.1" in build.line


# Written by hand in the form of an aarch64 wheel's text; only BLAS_INFO=open without ACL was seen in a real one.
ARM_CONFIG = """\
PyTorch built with:
  - GCC 10.2
  - C++ Version: 201703
  - Intel(R) MKL-DNN v3.5.3 (Git Hash 66f0cb9eb66affd2da3bf5f8d897376f04aae6af)
  - OpenMP 201511 (a.k.a. OpenMP 4.5)
  - LAPACK is enabled (usually provided by MKL)
  - CPU capability usage: NO AVX
  - Build settings: BLAS_INFO=open, BUILD_TYPE=Release, CXX_FLAGS= -O2 -march=armv8-a -DNDEBUG, \
LAPACK_INFO=open, TORCH_VERSION=2.5.1, USE_MKL=OFF, USE_MKLDNN=ON, USE_OPENMP=ON,
"""


def test_the_build_line_of_an_arm_wheel_names_no_acl() -> None:
    """The line names OpenBLAS but never ACL, which is why ACL is recognised by its file."""
    build = parse_torch_config(ARM_CONFIG)
    assert (build.blas, build.mkl, build.onednn) == ("open", None, "3.5.3")
    assert build.flags == ("-O2", "-march=armv8-a")
    assert "acl" not in build.line.lower()


def test_an_empty_build_line_is_no_error() -> None:
    """If nothing can be parsed, everything is unknown."""
    assert parse_torch_config("").line == "no oneDNN"
