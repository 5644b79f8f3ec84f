"""How a model knows where a token stands: what acts on X, on Q and K, or on S.

``scaling`` holds plain values and imports no torch, so that a configuration can name them;
``rotary`` turns queries and keys.
"""
