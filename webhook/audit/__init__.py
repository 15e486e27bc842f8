"""Where verdicts go: JSON lines, metrics, audit annotations."""
