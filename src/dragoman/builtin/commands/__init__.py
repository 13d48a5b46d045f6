"""Command lines, run for a limited time, with nothing left behind."""
