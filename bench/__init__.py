"""Repeatable measurements: each prints a table and writes bench/results/NAME.json."""
