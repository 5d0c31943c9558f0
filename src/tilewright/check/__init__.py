"""Safety checks: each access of a kernel is proved, checked at launch, or checked in the kernel."""
