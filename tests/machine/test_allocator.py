"""The memory allocator in use, from recorded mappings."""

from __future__ import annotations

from modelzoo.machine.allocator import identify_allocator, malloc_address

MAPS = """\
7f0000000000-7f0000100000 r-xp 00000000 fe:00 11 /usr/lib/x86_64-linux-gnu/libc.so.6
7f0000200000-7f0000300000 r-xp 00000000 fe:00 12 /usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4
7f0000400000-7f0000500000 rw-p 00000000 00:00 0
7f0000600000-7f0000700000 r-xp 00000000 fe:00 13 /opt/my dir/libjemalloc.so.2
"""


def test_allocator() -> None:
    """The mapping that holds malloc decides; a mapped replacement alone need not be in use."""
    assert identify_allocator(MAPS) == "tcmalloc"
    assert identify_allocator(MAPS, 0x7F0000000010) == "glibc"
    assert identify_allocator(MAPS, 0x7F0000600010) == "jemalloc"
    assert identify_allocator("") is None
    assert identify_allocator("1-2 r-xp 0 0:0 1 /lib/ld-musl-aarch64.so.1") == "musl"


def test_the_address_of_malloc_is_known() -> None:
    """It can be determined on Linux."""
    assert malloc_address()
