"""Requests that arrive on their own: when, in which queue and batches they wait, and what answers them.

The terms and rules are those of MLPerf Inference; each module names its source.
"""
