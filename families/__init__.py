"""Every family of transformers models, tiny and random, traced: what works and what is refused."""
