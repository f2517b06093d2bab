"""Rules about likelihoods, divergences and scales: signs, factors, temperatures."""
