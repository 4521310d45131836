"""Answers for one column pooled from several models, by cells held out (design 15)."""
