"""Benches: ours and the peer in one run, with the ratio printed."""
