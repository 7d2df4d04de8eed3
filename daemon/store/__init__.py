"""What a site keeps on disk: one SQLite database in WAL mode, synchronous=FULL.

store             writes and reads: one connection for each
schema            makes and migrates the tables
tables            a file for each stored thing: its columns, what of it decisions change, how it is read back
table             reads row by row, whatever is damaged; `columns`: what may stand in one
batch             what one transaction does to all of them; `changes`: to one kind of thing
checksum          whether a stored message is still what was stored
read_only         looks into a store that a daemon has open, or that rests
quarantine        what was set aside, for operators
ownership         whose store it is
ended_accounts    what ends with an account that is removed while no daemon runs
write_ahead_log   keeps the write-ahead log short
disk_room         what is done with a full disk; `reserve`: room kept for it
health            whether the store works
backup            copies a store that is in use; `backup_manifest`: what the copy says of itself
"""
