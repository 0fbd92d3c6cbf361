"""Model cards: what a pushed version is, from the record alone."""
