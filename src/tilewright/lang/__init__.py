"""What kernel authors import: names, types and documentation. What they mean is in `frontend`."""
