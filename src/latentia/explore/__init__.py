"""Explorer: a page that shows a model, in one file or served on this machine only."""
