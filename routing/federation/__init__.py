"""Messages across sites: what crosses links, by which ways, and who is told of it.

    federation       the router's side of all links, made of the parts below
    peer             a site that this one links to
    forwarding       where copies go, and what is remembered of them
    destinations     which sites a copy of mode ALL is for, and that they get it
    assigning        which peer sees to which of them
    heard            what peers say of that
    words            what they are told of it
    seen_through     who has what was seen to, and is not held any more
    removing         what has been removed, as peers say and are told
    rerouting        what is made of that when links and wants change
    turns            in what order copies are looked at then
    itineraries      who is to have what begins here, and by which peers
    link_graph       what all sites say of their links
    ways             the ways to all sites over these
    topology         what is known of their links and wants
    arriving         what becomes of a copy that comes
    custody          mode ONE
    ways_of_one      where that may go: first of all to who is attached
    counting         receipts, where answers may not come back by the way of the copy
    wanting          what peers and news tell of wants, and what comes of it
    pulling          what is held goes where it is wanted now
    interest         who wants what, beyond each peer, as peers tell
    extent           how far that can be
    nearest          the same by news
    own_wants        what this site wants
    telling          what peers are told of all that
    interest_peer    what one of them has been told
    outlook          what others may read of all this
    obstacles        what keeps a message from a peer
    assignments      which peer would see to which destination, and why
    enquiry          questions that travel over the links
    spreading        how news comes to all sites
    held_news        what is kept of it
    telling_news     what peers are told of it
    news_peer        what a peer has of it, and may be told
    refused_news     what peers would not have of it
    own_leaves       what this site says of its own
    saying           what it says of itself, and when
    known_wants      what the others want
    wants_by_name    the same, by topic and pattern
    missed           news and wants that were refused: what to ask whom for
    allowance        how often somebody may have something done
    news_allowances  how much of news peers may tell
    reach            how far sites are

What crosses links, as values, is in `routing.peering`.
"""
