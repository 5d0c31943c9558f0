"""The kernel language as authors import it: names, types and documentation, without lowering."""
