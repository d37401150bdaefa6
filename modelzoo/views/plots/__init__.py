"""Plots of results: five kinds (``forest``, ``panels``, ``bars``, ``scatter``, ``samples``), which take rows.

The functions that make rows from results are beside the kind that draws them; each returns a ``Plot``
(``modelzoo.views.plots.plot``): its table, and what draws it.
"""
