"""What a running site tells operators, and does for them; `daemon.operating` has what is asked and answered.

site        the whole: one object for the control socket and for front ends
census      all topics are counted, and their rates taken, every few seconds
rates       how fast messages come and go, from one look to the next
topics      topics found, sorted and paged; one topic
messages    what a topic holds, headers and bodies; dead letters
accounts    what is done to accounts, where the site may write their file
acting      what is done to topics and messages; dead letters back to where they came from
rights      whether an account may do something, and why
machine     memory of the process, room on the disk
"""
