"""Files of Hugging Face: a config.json, by the families of their models."""
