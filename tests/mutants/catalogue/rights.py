"""Who may do what."""

from tests.mutants.mutation import Mutation

MUTATIONS = [
    Mutation(
        name="an account that is written with dotted keys is changed by one",
        file="daemon/accounts/accounts_editor.py",
        old="or _is_dotted(written, name) or _has_dotted_keys(written, name):",
        new="or False:",
        tests=(
            "tests/daemon/accounts/test_accounts_file.py::"
            "test_an_account_may_be_written_in_any_way_that_toml_has",
        ),
    ),
    Mutation(
        name="a hash that no password can be verified against is a good one",
        file="daemon/accounts/passwords.py",
        old="if memory_kib < 8 * lanes else",
        new="if memory_kib < 0 else",
        tests=("tests/daemon/accounts/test_accounts_file.py::test_a_bad_accounts_file_is_refused_by_key",),
    ),
    Mutation(
        name="the rights of others are written as the locale reads them",
        file="daemon/accounts/accounts_editor.py",
        old='before = path.read_text(encoding="utf-8")',
        new="before = path.read_text()",
        tests=(
            "tests/daemon/accounts/test_accounts_file.py::"
            "test_an_edit_leaves_the_topics_of_others_as_they_are_whatever_the_locale_is",
        ),
    ),
    Mutation(
        name="a right that was taken is given back by who changes another one at the same time",
        file="daemon/cli/account.py",
        old="changed(editor.account(name).rights)",
        new="changed(held)",
        tests=(
            "tests/daemon/cli/test_accounts_at_once.py::"
            "test_a_right_that_was_taken_meanwhile_is_not_given_back",
        ),
    ),
    Mutation(
        name="an account that is unknown may do anything",
        file="routing/rights.py",
        old="        if key not in self._patterns:\n            return False",
        new="        if key not in self._patterns:\n            return True",
        tests=("tests/routing/test_rights.py",),
    ),
    Mutation(
        name="anybody reads what is for another account",
        file="routing/rights.py",
        old='            if right == "subscribe":\n                return False',
        new='            if right == "subscribe":\n                return True',
        tests=("tests/routing/test_rights.py::test_a_system_topic_belongs_to_its_account",),
    ),
    Mutation(
        name="an account of one name at another server is one's own",
        file="routing/rights.py",
        old="owner.account == account and owner.server == self.server_name",
        new="owner.account == account",
        tests=(
            "tests/routing/test_rights.py::test_the_same_account_name_at_another_server_is_somebody_else",
        ),
    ),
    Mutation(
        name="a session publishes what its account may not",
        file="daemon/broker/session_view.py",
        old="if not self._owner.accounts.rights.allows(self.account, right, topic):",
        new="if False:",
        tests=(
            "tests/daemon/broker/test_broker.py",
            "tests/plugins/smqp/test_server.py",
        ),
    ),
    Mutation(
        name="an account that is disabled logs in",
        file="daemon/accounts/accounts.py",
        old="return found is not None and not found.disabled",
        new="return found is not None",
        tests=("tests/daemon/accounts/test_accounts.py::test_wrong_unknown_and_disabled_are_answered_alike",),
    ),
    Mutation(
        name="a wrong password is answered at once however often",
        file="daemon/accounts/accounts.py",
        old="return min(FIRST_DELAY_S * 2.0",
        new="return 0 * min(FIRST_DELAY_S * 2.0",
        tests=(
            "tests/daemon/accounts/test_accounts.py::test_each_failure_delays_the_pair_more_and_nobody_else",
        ),
    ),
    Mutation(
        name="a peer sends topics that it may not",
        file="routing/federation/peer.py",
        old="        return topic_allowed(self.rules.allow_in, topic)\n",
        new="        return True\n",
        tests=(
            "tests/routing/federation/test_rules.py"
            "::test_what_a_peer_sends_though_it_may_not_come_is_taken_by_nobody",
        ),
    ),
    Mutation(
        name="a peer is sent topics that it may not have",
        file="routing/federation/peer.py",
        old="        return topic_allowed(self.rules.allow_out, topic)\n",
        new="        return True\n",
        tests=("tests/routing/federation/test_rules.py::test_a_topic_that_may_not_go_is_not_sent",),
    ),
    Mutation(
        name="a file of keys that is open to others is used",
        file="daemon/system/private_files.py",
        old="if mode & (stat.S_IRWXO | stat.S_IWGRP):",
        new="if False:",
        tests=(
            "tests/daemon/accounts/test_accounts_file.py::test_an_accounts_file_that_others_can_read_is_refused",
        ),
    ),
    Mutation(
        name="over TLS there is twice the time to log in",
        file="daemon/connections/listen.py",
        old="await handler(tls_stream, remote, login_by)",
        new="await handler(tls_stream, remote, trio.current_time() + self._limits().login_timeout_s)",
        tests=("tests/daemon/connections/test_listen.py",),
    ),
]
