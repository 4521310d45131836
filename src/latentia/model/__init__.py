"""Learners and estimators."""
