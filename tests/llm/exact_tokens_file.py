"""The file of reference tokens, which `exact_tokens.py --write` renews."""

from pathlib import Path

REFERENCES = Path(__file__).with_name("references.json")
