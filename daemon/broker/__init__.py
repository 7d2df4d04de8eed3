"""Carries out what the router decides: commits it, then hands on what has come true.

    lifetime         brings a broker up and down, with its files and tasks
    broker           the one task that writes: decisions in order, a transaction, its effects
    waking           when there is something to carry out: now, in a moment, or when its time has come
    committing       when the next transaction begins, and whether a thread waits for the disk
    carrying_out     how decisions come true: one transaction, one fsync, and what becomes of one that fails
    inputs           where what one input has brought about ends, among the decisions of many
    executor         decisions to rows and effects, and back when a transaction fails
    recording        decisions to records of the hop log
    telling          decisions to what sessions are told; `ages`: when messages were stored
    session          one login: checks what is asked; `transaction` is several calls as one, `pace` how fast
    session_view     what a session may see, and whether it may do what it asks for
    asking           requests of the site's own, or of its operator, answered like those of a session
    account_use      what each account may use, and uses
    outbox           what a front end has still to send, and back-pressure
    listing          topics, however many, for an account
    browsing         what waits, page by page, for front ends
    federating       what the router tells peers, and what they send; `transfers`: in the router's words
    hearing          what they tell of themselves and of others, and ask
    store_room       whether the store can take messages of publishers, and of peers
    deferred_copies  copies from peers that a full site has no room for
    bodies           messages in memory; `reading` brings the others from the store
    taking_apart     what is kept of a transaction that cannot be stored
    giving_way       what finds no room on the disk is undone, so that the rest goes on; `retries`: again
    burials          dead letters, and those that wait for room on the disk
    router_settings  what of the configuration decides over messages

The way of a message through them is drawn in the README of the daemon.
"""
