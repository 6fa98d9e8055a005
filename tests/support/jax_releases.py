"""What releases of JAX before 0.8 have under other names."""

import importlib


def enable_x64(enabled):
    """The context with or without types of 64 bits."""
    jax = importlib.import_module("jax")
    owner = jax if hasattr(jax, "enable_x64") else importlib.import_module("jax.experimental")
    return owner.enable_x64(enabled)
