"""From a graph to a plan: sets and integers."""
