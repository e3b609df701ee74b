"""What methods share: critics, generative models, latent policies, weights, multipliers."""
