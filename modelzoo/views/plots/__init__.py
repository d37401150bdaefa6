"""Plots of results: five kinds, ``forest``, ``lines``, ``bars``, ``scatter`` (with ``roofline``) and ``samples``.

Each function makes rows from results and returns a ``Plot`` (``modelzoo.views.plots.plot``): its table, and what draws
it.
"""
