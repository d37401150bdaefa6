# Sourced by the scripts in this directory: the compilers for aarch64, native or cross, and the checks they share.
# shellcheck shell=sh disable=SC2034
# On other architectures, Debian's cross compilers are the default.
if [ "$(uname -m)" = aarch64 ]; then
    CC=${CC:-gcc} CXX=${CXX:-g++} FC=${FC:-gfortran}
else
    CC=${CC:-aarch64-linux-gnu-gcc} CXX=${CXX:-aarch64-linux-gnu-g++} FC=${FC:-aarch64-linux-gnu-gfortran}
fi
CROSS_PREFIX=${CC%gcc}
JOBS=${JOBS:-$(nproc)}

die() {
    echo "${0##*/}: error: $*" >&2
    exit 1
}

# End the script because of wrong arguments: usage ARGUMENTS
usage() {
    echo "usage: ${0##*/} $*" >&2
    exit 2
}

step() {
    echo "== ${0##*/}: $*" >&2
}

# Require that a file was built for aarch64: assert_aarch64 FILE
assert_aarch64() {
    machine=$(LC_ALL=C readelf -h "$1" | sed -n 's/^ *Machine: *//p' | sort -u)
    [ "$machine" = AArch64 ] || die "$1 is for ${machine:-an unknown machine}, not AArch64"
}

assert_compilers() {
    for compiler in "$@"; do
        command -v "$compiler" >/dev/null || die "$compiler is not installed; run install-tools libraries first"
        machine=$($compiler -dumpmachine)
        case $machine in
            aarch64*) ;;
            *) die "$compiler compiles for $machine, not for aarch64; set CC, CXX and FC" ;;
        esac
    done
}

# Require that a library defines and exports a symbol: assert_symbol LIBRARY SYMBOL
assert_symbol() {
    "${CROSS_PREFIX}nm" -D --defined-only "$1" | grep -q " [TWi] $2\$" || die "$1 does not export $2"
    echo "$1 exports $2"
}

# Run a program that was built for aarch64, natively or under the emulator named in EMULATOR. If neither is possible, it
# is an error: a check that did not run has not passed.
run_built() {
    if [ "$(uname -m)" = aarch64 ]; then
        "$@"
    elif [ -n "${EMULATOR:-}" ]; then
        # shellcheck disable=SC2086
        $EMULATOR "$@"
    else
        die "cannot run $1 on $(uname -m); set EMULATOR, e.g. 'qemu-aarch64-static -L /usr/aarch64-linux-gnu'"
    fi
}
