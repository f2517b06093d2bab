"""Rules about how a model is scored, and which of its states is kept."""
