"""Grammars: what a model may write, from the same rows that read it."""

from __future__ import annotations
