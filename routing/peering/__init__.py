"""What crosses links, as values, and what a site remembers of it; the rules are in `routing/federation`.

copies       a message that crosses links: as it comes, as it is held, as it is remembered
crossing     the copies that may cross links, while they are held
removals     what was removed
counts       what sites tell of the receipt of a message, each for itself
wants        what can be wanted
news         what a site says of itself
leaves       what it says of its wants
about        which message a decision is about
decisions    what can be wanted done with all that
"""
