"""The command line `smqpd`: one file for each group of commands, `main` puts them together.

main              runs a command, and says how it failed
command_tree      the core's own commands, and those that installed packages add
options           what several commands share; `completing`: what the shell completes
asking            asks a running daemon; `telling` has it take on what a command has changed
as_daemon         looks at files with the eyes of the daemon's user

init              makes a site
run               the daemon, in the foreground
config            looks at a configuration before a daemon does
status            how a running site does; `reload`
top               the same, again and again
check             for monitoring; `monitoring`: how a check ends
account           who may log in; `account_changing`, `account_quotas`, `account_token`
sessions          who is logged in, and an end to it
topics            what topics hold, and what is done to them
dead              messages that nobody could take
quarantine        messages that could not be read or handled
why               what became of a message; `why_everywhere`: at all sites
hops              whether the hop log is all there
cert              the authority, and certificates
peer              who may link with the site
peers             what it knows of its links; `routes`
federation        all sites that it knows of
ping              whether a server can be reached
trace             where a message would go
backup            a copy of a site
restore           a site made of one
"""
