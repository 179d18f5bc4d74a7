"""From a configuration to recorded runs, measured cells, and the content of a report."""
