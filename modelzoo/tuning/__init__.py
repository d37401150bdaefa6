"""Search the fastest setting of a workload on this machine.

``driver`` runs the stages of a race, here and in ``modelzoo throughput``. ``grid`` declares what is tried here,
``decisions`` divides the time among the stages, finds candidates that must not win and picks the winner, and ``search``
measures them.
"""
