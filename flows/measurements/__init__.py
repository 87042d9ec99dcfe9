"""Measurements as programs: each runs one engine in a process of its own and writes one record."""
