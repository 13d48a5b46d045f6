"""Readers of formats that no template can describe: small classes with the interface of a compiled template."""

from __future__ import annotations
