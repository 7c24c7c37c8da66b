"""Pictures of an archive: the graph of summaries as SVG or DOT, and charts of numbers over time for a terminal."""
