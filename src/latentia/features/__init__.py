"""From values to codes and features: one file per kind of column."""
