"""What a running site tells operators, and does for them; `daemon.operating` has what is asked and answered.

site.py         the whole: one object for the control socket and for front ends
census.py       all topics are counted, and their rates taken, every few seconds
topics.py       topics found, sorted and paged; one topic
messages.py     what a topic holds, headers and bodies; dead letters
accounts.py     what is done to accounts, where the site may write their file
acting.py       what is done to topics and messages; dead letters back to where they came from
rights.py       whether an account may do something, and why
stepping.py     how what looks at much lets others run
machine.py      memory of the process, room on the disk
"""
