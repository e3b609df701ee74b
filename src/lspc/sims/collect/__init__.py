"""Making datasets in the simulators: a population of agents, every episode recorded, a covering set kept."""
