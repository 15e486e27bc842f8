"""What of the chart is made from the code: its values' schema, and the table of them."""
