"""Plots of results: four kinds, ``forest``, ``lines``, ``bars`` and ``scatter`` (with ``roofline``).

Each function makes rows from results and returns a ``Plot`` (``modelzoo.views.plots.plot``): its table, and what draws
it.
"""
