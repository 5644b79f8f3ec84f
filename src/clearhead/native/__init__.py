"""Loops that PyTorch has no fast one for, in C, compiled where they run; without a compiler, none.

Nothing needs them: what they give, PyTorch gives too, only later.
"""
