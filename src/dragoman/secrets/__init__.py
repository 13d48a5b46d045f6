"""Redaction: hide credentials before a model, a person or a log sees them."""

from __future__ import annotations

from dragoman.secrets.registered import Restored, Secrets, Vault, worth_hiding
from dragoman.secrets.scrubber import HumanSink, ModelSink, Scrubber, known_secrets, scrub

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
