"""One running site: its files, its parts, and its process.

    run            the process: lock, logs, signals, the service manager
    site           the parts of a running site, from start to clean stop; `links` those to peers
    examination    what a site makes of its files: one judge for start, reload and `smqpd config check`
    finding        what is to be said of them
    files          what a running site has taken on of them
    difference     what differs between what it runs with and what they say
    standing       how a running site stands to its files
    login_log      who came, who was refused, who left and why
    directory      makes a site; `admin_login` keeps the login for commands on its machine
    state_mark     that the state directory is the one that the site had
    lock           one daemon for each state directory

`smqpd run` becomes `python -m daemon`, which begins at `run`.
"""
