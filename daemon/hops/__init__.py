"""The hop log of one site on disk: `writer` appends, `service` keeps it, `reader` finds, `files` names.

A directory of JSON lines (`routing.hops.HopRecord`), one file of which is being written at a time:

    open-<first record>.jsonl                                   being written, may end in a torn line
    hops-<server>-<boot>-<first record>-<last record>.jsonl     closed: synced, complete, never changed again
"""
