"""The hop log of one site on disk: written, kept, and read.

    writer       numbers records, and has them written
    open_file    the file that they are written to, until it is closed
    closing      the line that closes a file
    service      keeps it while the site runs: heartbeats, files that are finished
    recovery     what a start does with the files that the last boot left open
    retention    deletes the oldest files
    files        what files are called, which there are, and what a line of one says
    reader       reads records, whatever state they are in
    coverage     which record numbers a log has, and should have
    examine      what a log has to say of one message

A directory of JSON lines (`routing.hops.HopRecord`), one file of which is being written at a time:

    open-<first record>.jsonl                                   being written, may end in a torn line
    hops-<server>-<boot>-<first record>-<last record>.jsonl     closed: synced, complete, never changed again
"""
