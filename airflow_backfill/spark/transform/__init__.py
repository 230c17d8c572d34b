"""The user's expressions: parsed, checked, applied to rows."""
