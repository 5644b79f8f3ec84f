"""Tracing: read every quantity of attention from a model that runs, and keep what is linear in n."""
