"""Where rows come from: one file per engine, each with the one verb `fold`."""
