"""Stored results side by side: what can be compared, how they differ, and whether the difference can be trusted. Pure.

Nothing here measures, reads a file or imports torch.
"""
