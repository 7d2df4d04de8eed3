"""One running site: carries out what `routing` decides."""
