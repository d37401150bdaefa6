"""Search the fastest setting of a workload on this machine.

``grid`` declares what is tried here, ``halving`` plans the stages and decides who stays, ``choice`` finds candidates
that must not win and picks the winner. ``search`` drives the processes.
"""
