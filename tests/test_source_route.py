"""The scripts of pytorch_env/source end with one clear line if a build would silently lack something."""

import hashlib
import platform
import re
import shutil
import tarfile
from functools import partial
from pathlib import Path

import pytest
from places import ROOT
from programs import ran

ENVIRONMENT = ROOT / "pytorch_env"
SOURCE = ENVIRONMENT / "source"
PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


run = partial(ran, environ=PATH)


@pytest.mark.skipif(not shutil.which("curl", path=PATH["PATH"]), reason="needs curl")
@pytest.mark.parametrize(
    ("pin", "wrong"), [(None, ""), ("0" * 64, "not 0000"), ("", "no ACL_SOURCE and ACL_PIN")], ids=["own", "0", "none"]
)
def test_fetch_unpacks_what_has_the_pinned_checksum(pin: "str | None", wrong: str, tmp_path: Path) -> None:
    """And nothing else; the tarball's top directory is stripped, as the build scripts expect."""
    (tmp_path / "acl-1").mkdir()
    (tmp_path / "acl-1" / "SConstruct").write_text("here\n")
    source, versions = tmp_path / "acl.tar.gz", tmp_path / "versions.sh"
    with tarfile.open(source, "w:gz") as archive:
        archive.add(tmp_path / "acl-1", "acl-1")
    own = hashlib.sha256(source.read_bytes()).hexdigest()
    versions.write_text(f"TORCH=2.10.0\nACL_SOURCE=file://{source}\nACL_PIN={own if pin is None else pin}\n")
    done = run(SOURCE / "fetch", "ACL", tmp_path / "out", VERSIONS=str(versions))
    assert done.returncode == (1 if wrong else 0), done.stderr
    assert wrong in done.stderr
    assert (tmp_path / "out" / "SConstruct").exists() is not bool(wrong)


@pytest.mark.skipif(platform.machine() == "aarch64", reason="only for other architectures")
def test_another_architecture_is_refused(tmp_path: Path) -> None:
    """At once, not after hours, or when the image runs: this machine, its compiler, and its shell."""
    for command, said in (
        ((SOURCE / "install-tools", "pytorch"), f"this is {platform.machine()}"),
        ((SOURCE / "build-pytorch", "configure", "acl", ".", "out"), f"this is {platform.machine()}"),
        *([((SOURCE / "build-openblas", tmp_path, tmp_path / "out"), "not for aarch64")] if has("gcc") else ()),
        *([(("sh", "-c", f". {SOURCE}/common.sh; assert_aarch64 /bin/sh"), "not AArch64")] if has("readelf") else ()),
    ):
        done = run(*command, CC="gcc", FC="gcc")
        assert done.returncode == 1
        assert said in done.stderr


def has(program: str) -> bool:
    return shutil.which(program, path=PATH["PATH"]) is not None


def test_every_source_is_pinned() -> None:
    """Every source has a full commit or SHA-256, so it cannot change unnoticed."""
    names = ("OPENBLAS", "LAPACK", "ACL", "PYTORCH")
    script = f". {ENVIRONMENT}/versions.sh; " + "; ".join(f'echo "${name}_SOURCE ${name}_PIN"' for name in names)
    for line in run("sh", "-c", script).stdout.splitlines():
        source, pin = line.split()
        assert re.fullmatch(r"[0-9a-f]{40}" if source.endswith(".git") else r"[0-9a-f]{64}", pin)


SUMMARY = """
-- ******** Summary ********
--   USE_BLAS              : 1
--     BLAS                : open
--     BLAS_HAS_SBGEMM     : {sbgemm}
--   USE_LAPACK            : 1
--     LAPACK              : open
--   USE_MKLDNN            : 1
--   USE_MKLDNN_ACL        : {acl}
-- Arm Compute Library: /opt/acl/build/libarm_compute.so
"""


@pytest.mark.parametrize(
    ("sbgemm", "acl", "wrong"), [("1", "1", ""), ("", "1", "BLAS_HAS_SBGEMM"), ("1", "OFF", "USE_MKLDNN_ACL")]
)
def test_summary_of_cmake_is_judged(tmp_path: Path, sbgemm: str, acl: str, wrong: str) -> None:
    """Without bf16 BLAS or without ACL, cmake succeeds."""
    log = tmp_path / "configure.log"
    log.write_text(SUMMARY.format(sbgemm=sbgemm, acl=acl))
    done = run(SOURCE / "check-configured", "acl", log)
    assert done.returncode == (1 if wrong else 0), done.stderr
    assert wrong in done.stderr


def test_bfmmla_is_counted_in_both_forms_of_the_log(tmp_path: Path) -> None:
    """bfmmla of SVE and NEON is counted, as bytes and as words; bfdot is not."""
    log = tmp_path / "asm"
    log.write_text("IN: gemm\nOBJD-T: 20e462642080626420ec426e\nOBJD-T: 20fc426e\n0x7f10:  6462e420  .byte    0x20\n")
    assert run(SOURCE / "count-bfmmla", log).stdout == "3\n"


@pytest.mark.parametrize(
    "script", sorted(path.name for path in SOURCE.iterdir() if path.read_bytes().startswith(b"#!/bin/sh"))
)
def test_a_call_without_arguments_is_one_line_of_usage(script: str) -> None:
    """As in its first comment."""
    done = run(SOURCE / script)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"usage: {script} ")
    assert f": {line.removeprefix('usage: ')}\n" in (SOURCE / script).read_text(encoding="utf-8")
