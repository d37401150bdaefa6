"""Jittor on the CPU, in an environment of its own that ``scripts/setup-jittor`` makes.

Importing Jittor compiles C++, imports torch if it can, turns the verification of TLS certificates off, and changes the
limits of recursion and stack, so it is imported only in processes that measure it or serve its predictions. Those
processes never import torch. ``environment`` finds the environment, and imports Jittor in it.
"""
