"""The page: results as one HTML file that needs nothing else.

``build.page`` makes a document of results, and ``modelzoo.document.html`` a page of that.
"""
