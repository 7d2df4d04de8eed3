"""What a site keeps on disk: one SQLite database in WAL mode, synchronous=FULL.

`schema` makes and migrates it, `batch` is what one transaction holds, `store` writes and reads.
"""
