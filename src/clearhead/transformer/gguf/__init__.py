"""GGUF files: read strictly, widened to float32, kept as a Hugging Face folder."""
