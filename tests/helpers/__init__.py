"""What several test files share; no test imports another."""
