"""Hides credentials in what tools print, before a model or a person sees it."""

from __future__ import annotations

from dragoman.scrubbing.registered import Secrets, worth_hiding
from dragoman.scrubbing.scrubber import Scrubber, scrub
from dragoman.scrubbing.sinks import HumanSink, ModelSink, known_secrets
from dragoman.scrubbing.vault import Restored, Vault

__all__ = [
    "HumanSink",
    "ModelSink",
    "Restored",
    "Scrubber",
    "Secrets",
    "Vault",
    "known_secrets",
    "scrub",
    "worth_hiding",
]
