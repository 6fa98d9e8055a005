"""Calls on arrays without memory, as inside torch.compile and jax.jit."""
