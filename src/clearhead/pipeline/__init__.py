"""Attention itself: one rule, one tap, three implementations, matrices that are never formed.

``attention.py`` is the way in and ``result.py`` what comes out. ``rule.py`` says how scores are
made, ``dispatch.py`` who computes them: ``fused.py`` from kernels, ``tiles.py`` from blocks,
``reference.py`` written out. ``matrix.py`` and ``observe.py`` read S and A; through ``tap.py`` a
model is read.
"""
