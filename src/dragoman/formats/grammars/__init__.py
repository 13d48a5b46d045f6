"""Grammars that restrict the output of a model, built from the same rows as the parser."""

from __future__ import annotations
