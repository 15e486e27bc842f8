"""The serving process: Flask application, gunicorn, TLS, probes, shutdown."""
