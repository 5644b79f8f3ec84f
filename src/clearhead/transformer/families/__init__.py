"""How released models name their settings and tensors: one readable table a family.

A family's file says two things: which of its config keys becomes which of our fields, and under
which name its checkpoints keep each of our modules.
"""
