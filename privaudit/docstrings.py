"""Docstrings as people read them: without markup, formulas in plain characters."""

from __future__ import annotations

import inspect
import re
import unicodedata

__all__ = ["plain", "summary_line"]

#: Commands of LaTeX that docstrings use, and what stands for them.
SYMBOLS = {
    "argmax": "argmax",
    "argmin": "argmin",
    "cap": "∩",
    "cdot": "·",
    "ell": "ℓ",
    "epsilon": "ε",
    "eta": "η",
    "in": "∈",
    "mu": "μ",
    "Phi": "Φ",
    "pi": "π",
    "sigma": "σ",
    "sum": "Σ",
    "theta": "θ",
    "varepsilon": "ε",
}
ACCENTS = {"hat": "\u0302", "bar": "\u0304"}


def plain(text: str) -> str:
    """Return a docstring with formulas spelt out and names of classes for references to them."""
    text = re.sub(r":math:`([^`]*)`", lambda match: _formula(match[1]), text)
    return re.sub(r":\w+:`[~.\w]*?(\w+)`", r"\1", text).replace("``", "'")


def _formula(text: str) -> str:
    text = re.sub(r"\\(?:mathrm|text)\{([^{}]*)\}", r"\1", text)
    text = re.sub(r"\\arg\s*\\", r"\\arg", text)
    text = re.sub(r"\\(hat|bar)\s+(\w)", lambda match: match[2] + ACCENTS[match[1]], text)
    text = re.sub(r"\\([A-Za-z]+)", lambda match: SYMBOLS.get(match[1], match[1]), text)
    text = re.sub(" +", " ", text)
    # A subscript of several words keeps its extent.
    text = re.sub(r"\{([^{}]*\s[^{}]*)\}", r"(\1)", text)
    return unicodedata.normalize("NFC", re.sub(r"[{}]", "", text))


def summary_line(thing: object) -> str:
    """Return the first line of what a class or function says of itself; empty if nothing."""
    return plain((inspect.getdoc(thing) or "").partition("\n")[0])
