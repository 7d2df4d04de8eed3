"""The site's configuration: what is installed, and what its file says.

discovery    front ends and commands, found by entry points
config       reads the file into `daemon.settings.Settings`
template     writes one, with comments
"""
