"""Rules about what a model generates or forecasts, step by step."""
