"""The benchmark: the grid of task x method x threshold x seed, its executors, its raw records and its tables."""
