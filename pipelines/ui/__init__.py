"""Pages over a workspace, read-only: runs, models, lineage."""
