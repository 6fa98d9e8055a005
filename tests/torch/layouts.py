"""Random layouts for tests with gradients: orders, padding with any value, nested tiles, tails."""

import gpulayout as gl


def random_layout(rng, sizes):
    """A layout for an array of these sizes."""
    fields = {"minor_to_major": rng.sample(range(len(sizes)), len(sizes))}
    if rng.random() < 0.5:
        fields["padded_dimensions"] = [size + rng.choice((0, 0, 1, 3)) for size in sizes]
        fields["padding_value"] = rng.choice((None, 1, 2.5, gl.PaddingValue.LOWEST))
    if rng.random() < 0.6:
        tiles = [[rng.choice((1, 2, 3, 4)) for _ in range(rng.choice((1, 2)))] for _ in range(rng.choice((1, 1, 2)))]
        fields["tiles"] = [tuple(tile) for tile in tiles]
    if rng.random() < 0.2:
        fields["tail_padding_alignment"] = 8
    return gl.Layout(**fields)


def random_pair(rng, element_type="f64"):
    """Two shapes of one array."""
    sizes = [rng.choice((1, 2, 3, 4, 5, 7)) for _ in range(rng.choice((1, 2, 2, 3, 3, 4)))]
    return tuple(gl.Shape(element_type, sizes, random_layout(rng, sizes)) for _ in range(2))
