"""The tool `bash`: it runs command lines for a limited time, and leaves no processes behind."""
