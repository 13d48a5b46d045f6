"""The tool `web_fetch`: it fetches pages only from public addresses, and converts them to readable text."""
