"""What the operating system gives: clocks, files, the journal, the service manager.

clock            site time for deadlines, the wall for stamps
log              where the log goes, and its form; `journal`: the journal's own protocol
limited_log      lines that others bring about, so many a second at most
mishaps          errors of our own that a site survives
systemd          what the service manager gives, and wants to hear
private_files    files that are changed whole or not at all
open_files       how many the process may have open
outlasting       memory that outlasts the process
allocator        memory that is free goes back to the system
huge_pages       what each message needs, in huge pages
own_thread       a thread for one kind of work
stepping         looking at much lets others run
version          of the installed distribution
"""
