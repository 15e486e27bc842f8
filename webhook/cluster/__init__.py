"""Where facts come from: watches, live reads, YAML folders."""
