"""Records of libraries; ``test_doctor.py`` covers writing and reading them."""

from __future__ import annotations

from example_machine import BUILD

from modelzoo.frozen import replace


def test_a_build_in_one_line() -> None:
    """Unknown parts are left out; a build without oneDNN is pointed out."""
    assert BUILD.line == "GCC 13.3, oneDNN 3.7.1, BLAS open, OpenMP 4.5, ATen kernels DEFAULT"
    unknown = replace(BUILD, compiler=None, onednn=None, openmp=None, capability=None, blas=None)
    assert unknown.line == "no oneDNN"
