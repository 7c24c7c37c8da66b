"""A few runs of what `bench/` does at length: the fuzzers, the killed processes, and the measuring tools."""
