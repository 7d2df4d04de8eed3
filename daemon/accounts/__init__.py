"""Who may log in, and with which rights.

    accounts                who is let in, and how guessers are slowed
    accounts_file           the accounts as TOML, for people and for `smqpd account`
    accounts_editor         changes it, and keeps what people wrote beside
    changing                what may be changed of them, and what is refused
    passwords               their hashes; `verifying` does the slow ones in turn
    tokens                  what programs show in their place
    remembered_passwords    what was right a short while ago

Nothing here knows a protocol: a front end brings an account, a password and an address.
"""
