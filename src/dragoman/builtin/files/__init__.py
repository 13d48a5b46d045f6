"""Files in a workspace: read, listed, searched, written, edited and patched, and never outside of it."""
