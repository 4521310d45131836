"""Valid distributions: tables, climbed by EM."""
