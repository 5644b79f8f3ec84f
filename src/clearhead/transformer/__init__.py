"""The Transformer itself: from token ids to logits, each quantity passing through the tap.

Read ``model`` first, then ``layers``. ``config`` and ``families`` import no torch, so that what a
model would cost can be asked without it.
"""
