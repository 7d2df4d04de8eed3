"""The site's configuration: what is installed, and what its file says."""
