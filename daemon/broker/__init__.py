"""Carries out what the router decides: commits it, then hands on what has come true.

    lifetime         brings a broker up and down, with its files and tasks
    broker           the one task that writes: decisions in order, a transaction, its effects
    waking           when there is something to carry out: now, in a moment, or when its time has come
    committing       when the next transaction begins, and whether a thread waits for the disk
    executor         decisions to rows and effects, and back when a transaction fails
    session          one login: checks what is asked; `transaction` is several calls as one, `pace` how fast
    account_use      what each account may use, and uses
    outbox           what a front end has still to send, and back-pressure
    browsing         what waits, page by page, for front ends
    federating       what the router tells peers, and what they send; `transfers`: in the router's words
    hearing          what they tell of themselves and of others, and ask
    store_room       whether the store can take messages of publishers, and of peers
    deferred_copies  copies from peers that a full site has no room for
    bodies           messages in memory; `reading` brings the others from the store
    taking_apart     what is kept of a transaction that cannot be stored

The way of a message through them is drawn in the README of the daemon.
"""
