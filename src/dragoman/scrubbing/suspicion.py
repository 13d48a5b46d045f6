"""A quick look at a whole text: whether anything in it calls for a closer one. Most texts are done with this."""

from __future__ import annotations

from dragoman.scrubbing.registered import Secrets
from dragoman.scrubbing.scanning import first_anchor
from dragoman.scrubbing.view import View


def may_hide(text: str, secrets: Secrets) -> bool:
    """False only where scrubbing the text would give the text itself."""
    if not text:
        return False
    return secrets.may_occur(text) or first_anchor(View(text), 0, len(text)) < len(text)
