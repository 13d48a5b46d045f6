"""What the pages of the server share: markup that is always escaped, sessions of browsers, headers and files."""
