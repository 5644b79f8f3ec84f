"""Tracing: every quantity of attention read from a model that runs; what is linear in n is kept."""
