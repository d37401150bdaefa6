"""Plots for HTML pages: pure functions from plain values to SVG that is put into the page as it is.

Each module has frozen dataclasses for its values, functions that make them from results, and two functions:

- ``svg(data, name, width)`` returns the element ``<svg>`` as text. ``name`` must differ between the plots of one page.
  ``width`` is in CSS pixels: at ``canvas.NARROW`` the text is readable on a phone; at ``canvas.WIDE`` it uses the width
  of a desktop. The picture has no fixed size and fills the width of its box.
- ``columns(data)`` returns the plot's data as a table.

A page includes ``theme.CSS`` once, which defines the colours for light and dark. A page that shows both widths of a
plot gives them different names; the classes ``plot-narrow`` and ``plot-wide`` show the one that fits.
"""
