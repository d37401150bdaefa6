# The pins of the images; sourced by pytorch_env/source/fetch. docker-bake.hcl repeats base image and
# lock, and a test checks that they agree. LOCK names the file in requirements/ with the wheels and their checksums.
# shellcheck shell=sh disable=SC2034

TORCH=${TORCH:-2.10.0} # the last version whose aarch64 wheel is a CPU build that includes OpenBLAS and ACL
if [ "$TORCH" != 2.10.0 ]; then
    echo "versions.sh: error: there are no pins for torch $TORCH; use 2.10.0" >&2
    exit 2
fi
BASE_IMAGE=debian:bookworm-slim # Python 3.11
LOCK=lock-cpu.txt

# ROUTE=source: NAME_SOURCE is fetched and checked against NAME_PIN, the SHA-256 of a tarball or the commit of a git
# repository. PyTorch and ACL are pinned to the commits that the aarch64 wheel reports (torch.version.git_version; the
# text in libarm_compute.so), so that both routes have the same code. README.md lists what was built and what was not.
PYTORCH_PIN=449b1768410104d3ed79d3bcfe4ba1d65c7f22c0
ACL_PIN=007264fa740de5723ebddef16b7bb3657692c088 # v52.6.0
PYTORCH_SOURCE=https://github.com/pytorch/pytorch.git
ACL_SOURCE=https://github.com/ARM-software/ComputeLibrary.git
# 0.3.29 has bf16 kernels for Neoverse N2; on V1 and others sbgemm is generic C, which is correct but slow.
OPENBLAS_SOURCE=http://deb.debian.org/debian/pool/main/o/openblas/openblas_0.3.29+ds.orig.tar.xz
OPENBLAS_PIN=eb691e2cff83799400da22aa6ab93ebaa346ad317fea578b7ae119e226ce1b01
LAPACK_SOURCE=http://deb.debian.org/debian/pool/main/l/lapack/lapack_3.12.1.orig.tar.gz
LAPACK_PIN=2ca6407a001a474d4d4d35f3a61550156050c48016d949f0da0529c0aa052422
