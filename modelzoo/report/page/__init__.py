"""The page: results as one HTML file that needs nothing else.

``build.page`` makes plain data (``content``) of results, ``rendering`` makes HTML of that with the templates.
"""
