"""The file tools: they read, list, search, write, edit and patch files in a workspace, and never outside it."""
