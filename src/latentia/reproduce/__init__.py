"""The paper's experiments, one command each: `latentia reproduce NAME`; and their public data."""
