"""Files that only this user can have written, and locks between processes."""
