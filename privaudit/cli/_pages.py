"""Where the documentation tells of a registered part or a preset."""

from __future__ import annotations

from typing import Any

__all__ = ["page_of"]

#: Folders of the documentation that have a page for each part, by kind.
FOLDERS = {"protocol": "docs/protocols", "attack": "docs/attacks", "preset": "docs/attacks/presets"}


def page_of(kind: str, name: str, thing: Any = None) -> str | None:
    """Return the page of a part, relative to the repository, or nothing.

    Parameters
    ----------
    kind : str
        ``"preset"``, or a kind of :data:`privaudit.plugins.GROUPS`.
    name : str
        As registered; a family and ``/`` before the name are a folder.
    thing : object, optional
        What is registered. Parts of other distributions have no page here.
    """
    if kind not in FOLDERS or (thing is not None and not thing.__module__.startswith("privaudit.")):
        return None
    return f"{FOLDERS[kind]}/{name}.md"
