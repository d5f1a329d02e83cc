"""The directive ``picture``: a figure that the build draws, once for the light and once for the dark theme.

    :::{picture} windows
    :alt: The window functions over the samples of a frame.

    A caption.
    :::

``windows`` is a function of :mod:`site_builder.drawings` that draws into a new figure and returns it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import matplotlib
from docutils import nodes
from docutils.parsers.rst import Directive, directives

from site_builder import drawings

__all__ = ["Picture", "draw", "setup"]

FOLDER = Path(__file__).resolve().parents[1] / "generated" / "pictures"
STYLES = {"light": ["default"], "dark": ["default", "dark_background"]}
COMMON = {"savefig.transparent": True, "font.size": 11, "axes.grid": False, "svg.fonttype": "none"}


def draw(name: str, theme: str, folder: Path = FOLDER) -> Path:
    """Draw a picture for a theme, "light" or "dark", unless it is newer than the code that draws it."""
    from matplotlib import pyplot

    path = folder / f"{name}-{theme}.png"
    if path.exists() and path.stat().st_mtime > Path(drawings.__file__).stat().st_mtime:
        return path
    folder.mkdir(parents=True, exist_ok=True)
    matplotlib.use("Agg")
    with pyplot.style.context([*STYLES[theme], COMMON]):
        figure = getattr(drawings, name)()
        figure.savefig(path, dpi=130)
        pyplot.close(figure)
    return path


class Picture(Directive):
    """A figure with a caption."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {"alt": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """Return the figure: an image for each theme, and the caption."""
        name = self.arguments[0]
        figure = nodes.figure("", classes=["picture"])
        images = nodes.container()  # the theme hides a caption that is a sibling of an image of the other theme
        for theme in STYLES:
            path = draw(name, theme)
            image = nodes.image(
                uri=f"/generated/pictures/{path.name}", alt=self.options["alt"], classes=[f"only-{theme}"]
            )
            images += image
        figure += images
        caption = nodes.caption()
        children, messages = self.state.inline_text(" ".join(self.content), self.lineno)
        caption += children
        figure += caption
        return [figure, *messages]


def setup(app: Any) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("picture", Picture)
    return {"parallel_read_safe": False}
