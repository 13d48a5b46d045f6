"""The one reader of JSON Schema: keywords, references, merging, dialects, and whether a value fits."""
