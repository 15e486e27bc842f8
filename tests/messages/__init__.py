"""Every message of the guard, rendered from scenarios: the table in the chart's docs is made of them."""
