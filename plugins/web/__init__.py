"""The page for operators, the API, metrics and health checks, over HTTP. See README.md."""
