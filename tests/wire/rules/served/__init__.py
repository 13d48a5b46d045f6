"""The rules of what a server sends: one module for each API, with `reply` for whole bodies and `stream` for frames."""
