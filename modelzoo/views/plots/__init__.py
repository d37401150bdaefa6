"""Plots of results. Each module has frozen dataclasses for what it shows, functions that make them from results, and
``plot(data)``, which returns a ``Plot`` (``modelzoo.views.plots.plot``): its table, and what draws it.
"""
