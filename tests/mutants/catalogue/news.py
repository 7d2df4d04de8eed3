"""News of sites: whose word it is, which is the latest, whom it comes to, and how much of it."""

from tests.mutants.mutation import Mutation

SPREADING = "routing/federation/spreading.py"
TESTS = "tests/routing/federation/test_spreading.py"
NOTARY = "tests/daemon/link/test_notary.py"

MUTATIONS = [
    Mutation(
        name="news of a site is believed whoever has signed it",
        file=SPREADING,
        old="if (why := notary.refusal(site, signed)) is not None:",
        new="if (why := None) is not None:",
        tests=(TESTS,),
        seed=0,
    ),
    Mutation(
        name="news is signed by any site of the federation",
        file="daemon/link/notary.py",
        old="if name != site:",
        new="if False:",
        tests=(NOTARY,),
    ),
    Mutation(
        name="news is not looked at whether its certificate is trusted",
        file="daemon/link/notary.py",
        old="if (refusal := self._keys.trust.refusal(certificate, now)) is not None:",
        new="if (refusal := None) is not None:",
        tests=(NOTARY,),
    ),
    Mutation(
        name="the signature of news is not looked at",
        file="daemon/certificates/signatures.py",
        old="                key.verify(signature, data)\n",
        new="                pass\n",
        tests=(NOTARY,),
    ),
    Mutation(
        name="what the key signs elsewhere is news",
        file="daemon/link/notary.py",
        old='PURPOSE: Final = b"smqpd news of a site\\0"',
        new='PURPOSE: Final = b""',
        tests=(NOTARY,),
    ),
    Mutation(
        name="news of an older number is taken",
        file=SPREADING,
        old="if known is not None and statement.version <= known.statement.version:",
        new="if known is not None and statement.version == known.statement.version:",
        tests=(TESTS,),
        seed=0,
    ),
    Mutation(
        name="news goes back to who told it",
        file=SPREADING,
        old="            return why\n        link.note(site, statement.version)\n",
        new="            return why\n",
        tests=(TESTS,),
    ),
    Mutation(
        name="a peer is told again what it has",
        file=SPREADING,
        old="            link.note(site, news.statement.version)\n",
        new="",
        tests=(TESTS,),
    ),
    Mutation(
        name="a link that comes up brings no news of before",
        file=SPREADING,
        old="            self._tell(peer, self.known.values())\n",
        new="            pass\n",
        tests=(TESTS,),
        seed=0,
    ),
    Mutation(
        name="a site does not say that a link has gone",
        file=SPREADING,
        old="        self._links.pop(name, None)\n        self.note_links()\n",
        new="        self._links.pop(name, None)\n",
        tests=(TESTS,),
        seed=0,
    ),
    Mutation(
        name="a restored site does not go on above what it had said",
        file=SPREADING,
        old="            self._pass(statement.version)\n",
        new="            pass\n",
        tests=(TESTS, "tests/daemon/broker/test_news.py"),
    ),
    Mutation(
        name="what was forgotten comes back from who forgets later",
        file=SPREADING,
        old="if said_at < now - self._state.settings.news_kept_s:",
        new="if False:",
        tests=(TESTS,),
    ),
    Mutation(
        name="news gets no older on its way",
        file=SPREADING,
        old="news = KnownNews(statement, signed, said_at, peer)",
        new="news = KnownNews(statement, signed, now, peer)",
        tests=(TESTS,),
    ),
    Mutation(
        name="news is not kept on disk",
        file=SPREADING,
        old="        self._state.out.append(StoreNews(news))\n",
        new="",
        tests=("tests/daemon/broker/test_news.py",),
        seed=0,
    ),
    Mutation(
        name="what is on disk of other sites is believed unseen",
        file=SPREADING,
        old="if (why := notary.refusal(site, known.signed)) is not None:",
        new="if (why := None) is not None:",
        tests=(TESTS,),
    ),
    Mutation(
        name="a peer may have any number of signatures looked at",
        file=SPREADING,
        old="if not self._checks.setdefault(peer, Allowance(CHECKS_PER_S, CHECKS_AT_ONCE)).take(now):",
        new="if False:",
        tests=(TESTS,),
    ),
    Mutation(
        name="what is forged in the name of a site counts as said by it",
        file=SPREADING,
        old='            return self._miss(site, peer, "it tells more than it may")\n',
        new=(
            '            return self._miss(site, peer, "it tells more than it may")\n'
            "        if not self._sayings.setdefault(site, Allowance(1.0, SAID_AT_ONCE)).take(now):\n"
            '            return "too often"\n'
        ),
        tests=(TESTS,),
    ),
    Mutation(
        name="a site may say something as often as it likes",
        file=SPREADING,
        old="if not sayings.take(now, _pieces(signed)):",
        new="if False:",
        tests=(TESTS,),
    ),
    Mutation(
        name="what is long counts as one piece",
        file=SPREADING,
        old="return max(signed.size / PIECE_BYTES, 1.0)",
        new="return 1.0",
        tests=(TESTS,),
    ),
    Mutation(
        name="any number of sites is remembered",
        file=SPREADING,
        old="if known is None and len(self.known) >= SITES_MAX:",
        new="if False:",
        tests=(TESTS,),
    ),
    Mutation(
        name="a link that comes and goes is told of each time",
        file=SPREADING,
        old="due_at = min(due_at, self._quiet_until)",
        new="due_at = min(due_at, self._said_at)",
        tests=(TESTS,),
    ),
    Mutation(
        name="a way is shown over a link that one of its ends has not",
        file="routing/federation/reach.py",
        old="if peer not in said or site in said[peer]:",
        new="if True:",
        tests=("tests/routing/federation/test_reach.py",),
    ),
]
