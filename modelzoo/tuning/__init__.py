"""Search the fastest setting of a workload on this machine.

``search`` has the race, here and in ``modelzoo throughput``, and runs this one. ``grid`` declares what is tried,
``decisions`` divides the time among the stages, finds candidates that must not win, and picks the winner.
"""
