"""Models by name, ``LIBRARY:NAME``: one module a library, with ``names`` and ``workload``.

``modelzoo.workload.discovery`` imports the module of the library that a name begins with. What a module returns is a
``Workload`` like that of a directory, made from the library's own metadata: its builder, its preprocessing, its
categories, and the published weights with their quality.
"""
