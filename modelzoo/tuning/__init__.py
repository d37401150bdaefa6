"""Search the fastest setting of a workload on this machine.

``grid`` declares what is tried, ``halving`` plans the stages and decides who stays, ``exclusions`` finds candidates
that must not win, ``choice`` picks the winner: these are pure. ``search`` drives the processes.
"""
