"""How a model knows where a token stands: what acts on X, on Q and K, or on S.

``kinds`` and ``scaling`` hold plain values and import no torch, so that a configuration can name
them. ``absolute`` makes vectors that are added to X; ``rotary`` turns queries and keys, at the
angles that ``frequencies`` works out; ``bias`` adds to scores.
"""
