"""Pages of the web, fetched from public addresses alone and made readable."""
