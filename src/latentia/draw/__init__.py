"""Pictures of graphs, plans, messages, answers and checks: SVG made here, with no other program."""
