"""What methods share: critics, generative models, weights, multipliers. A part knows of no method."""
