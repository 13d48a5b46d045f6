"""Grammars: what a model may write, from the same rows that read it."""
