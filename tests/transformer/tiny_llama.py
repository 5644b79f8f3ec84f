"""Small random Llamas of transformers, in every variant that our Transformer reads."""

import torch

__all__ = ["VARIANTS", "make", "some_ids"]

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
VARIANTS = {
    "grouped heads": {},
    "one key head": {"num_key_value_heads": 1},
    "tied embeddings": {"tie_word_embeddings": True},
    "biases": {"attention_bias": True, "mlp_bias": True},
    "llama3 positions": {"rope_parameters": LLAMA3},
    "linear positions": {"rope_parameters": {"rope_type": "linear", "factor": 4.0}},
    "wide heads": {"head_dim": 12},
}


def make(**settings: object) -> torch.nn.Module:
    """A small random Llama of transformers; every bias and norm weight is random too."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {
        "vocab_size": 99,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "attn_implementation": "sdpa",
    }
    model = LlamaForCausalLM(LlamaConfig(**{**sizes, **settings})).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model


def some_ids(generator: torch.Generator, *shape: int) -> torch.Tensor:
    """Random tokens of their vocabulary."""
    return torch.randint(0, 99, shape, generator=generator)
