"""JSON Schema: keywords, references, merge, dialects, and the check whether a value fits."""
