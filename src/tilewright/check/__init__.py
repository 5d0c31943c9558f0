"""Safety checks: each access of a kernel proved, checked at launch, or checked inside."""
