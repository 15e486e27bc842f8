"""Stand-ins for the products that are guarded, each under its real identity. Start at `products.Products`."""
