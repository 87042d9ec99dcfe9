"""Pure statistics: numbers in, verdicts out. Nothing here reads a clock, a database or an environment variable."""
