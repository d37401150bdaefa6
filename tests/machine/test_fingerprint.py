"""What the fingerprint of a machine depends on."""

from __future__ import annotations

from example_machine import SERVER

from modelzoo.frozen import replace
from modelzoo.machine.facts import fingerprint


def test_the_fingerprint_follows_what_decides_the_ceilings() -> None:
    """A memory limit or another affinity mask changes it; the current frequency does not."""
    assert fingerprint(SERVER) == fingerprint(replace(SERVER, mhz=1.0, image="other"))
    assert fingerprint(SERVER) != fingerprint(replace(SERVER, memory_limit=2**31))
    threads = replace(SERVER.threads, affinity=SERVER.threads.affinity + 1)
    assert fingerprint(SERVER) != fingerprint(replace(SERVER, threads=threads))
