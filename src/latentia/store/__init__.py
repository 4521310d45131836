"""Model files: one per model, no pickle, the same answers bit for bit (docs/file-format.md)."""
