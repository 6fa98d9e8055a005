"""A headless Chromium for tests of pages: Debian's, driven by playwright.  Nothing is downloaded."""

import contextlib
import shutil

import pytest

OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def missing():
    """Why no browser can be started here, or None."""
    try:
        import playwright  # noqa: F401
    except ImportError:
        return "playwright is not installed"
    return None if shutil.which("chromium") else "there is no chromium"


@contextlib.contextmanager
def browser():
    """A running browser; skips the test without one."""
    if reason := missing():
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=[*OPTIONS])
        try:
            yield running
        finally:
            running.close()


class Screenshot:
    """The pixels of a PNG from a page, by coordinates of the page."""

    def __init__(self, content):
        import io

        import matplotlib.image

        self.pixels = (matplotlib.image.imread(io.BytesIO(content), format="png")[..., :3] * 255).round().astype(int)

    def color(self, x, y):
        return tuple(self.pixels[round(y), round(x)].tolist())


def luminance(color):
    """The relative luminance of a colour, as WCAG 2 defines it."""
    channels = [value / 255 for value in color]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear))


def contrast(one, other):
    """The contrast ratio of two colours, 1 to 21."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)
