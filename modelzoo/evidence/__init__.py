"""Proof of what ran: canary operators, kernel audit, operation counts and operator profile."""
