"""What operators see of a running site, and do at it: by commands over the control socket, in a front end.

`daemon.operations` answers; whoever asks has seen to it that its user may. Values are frozen copies. What
looks at much does so in steps of a millisecond, so that messages go on meanwhile: it is true for each thing
that it shows, but not for all of them at one moment.

    overview     a site at a glance
    topics       topics, and who subscribes to them
    messages     what topics hold, dead letters among it
    sessions     who is logged in
    federation   links, the other sites that are known, and the ways there
    accounts     accounts, what they may do, and what they use
    journeys     the way of one message over all sites
    operations   all that an operator can ask of a site, and do to it
"""
