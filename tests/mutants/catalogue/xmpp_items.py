"""XEP-0060 and urn:xmpp:qos: what a node shows and keeps, and what is held for its sender."""

from tests.mutants.mutation import Mutation

_XMPP = "tests/plugins/xmpp"

MUTATIONS = [
    Mutation(
        name="an item that another has replaced is shown",
        file="plugins/xmpp/known/item_index.py",
        old="if await index.is_hidden(session, node, each)}",
        new="if False}",
        tests=(f"{_XMPP}/test_pubsub.py::test_what_cannot_be_removed_yet_is_not_shown",),
    ),
    Mutation(
        name="room is made for an item that may have the id of another one",
        file="plugins/xmpp/known/item_index.py",
        old="max(kept - unread - len(",
        new="max(kept - len(",
        tests=(f"{_XMPP}/test_node_options.py::test_what_is_not_stored_yet_makes_no_room",),
    ),
    Mutation(
        name="an item on its way hides the one that is kept for ever",
        file="plugins/xmpp/known/item_index.py",
        old="return newest is not None and newest.message_id > number",
        new="return True",
        tests=(
            f"{_XMPP}/test_node_options.py"
            "::test_what_is_on_its_way_takes_the_place_of_what_is_kept_for_as_long_as_that",
        ),
    ),
    Mutation(
        name="an item on its way replaces the one that is kept",
        file="plugins/xmpp/known/item_index.py",
        old="return [held for held in found if held.message_id < newest]",
        new="return found[:-1]",
        tests=(
            f"{_XMPP}/test_node_options.py"
            "::test_what_is_on_its_way_takes_the_place_of_what_is_kept_for_as_long_as_that",
        ),
    ),
    Mutation(
        name="pages begin at the first item whatever the index",
        file="plugins/xmpp/requests/items.py",
        old="page.add(shown[index:])",
        new="page.add(shown)",
        tests=(f"{_XMPP}/test_pages.py::test_a_page_begins_where_it_is_asked_to",),
    ),
    Mutation(
        name="items that others have fill the page",
        file="plugins/xmpp/requests/items.py",
        old="(not held.locked or held.smuid in in_hand)",
        new="True",
        tests=(f"{_XMPP}/test_pages.py::test_items_that_others_have_take_no_place_on_a_page",),
    ),
    Mutation(
        name="the loop reads all that others have locked for one page",
        file="plugins/xmpp/requests/items.py",
        old="        if looked_at >= most:\n",
        new="        if False:\n",
        tests=(f"{_XMPP}/test_pages.py::test_behind_many_items_that_others_have_a_client_pages_on",),
    ),
    Mutation(
        name="pages stop at items that others have",
        file="plugins/xmpp/requests/items.py",
        old="            page.places.append(after)\n",
        new="",
        tests=(f"{_XMPP}/test_pages.py::test_behind_many_items_that_others_have_a_client_pages_on",),
    ),
    Mutation(
        name="what others have is read",
        file="plugins/xmpp/requests/items.py",
        old="        if seen[0]:\n",
        new="        if True:\n",
        tests=(f"{_XMPP}/test_large_items.py::test_large_items_that_others_have_are_not_read",),
    ),
    Mutation(
        name="what waits for a worker makes room for what is kept",
        file="plugins/xmpp/requests/items.py",
        old="hidden = set(session.kept_among(node, old))",
        new="hidden = set(old)",
        tests=(
            f"{_XMPP}/test_node_options.py"
            "::test_what_takes_no_room_is_shown_beside_what_nobody_has_removed_yet",
        ),
    ),
    Mutation(
        name="a listing begins behind what has made room, also where it is not all",
        file="plugins/xmpp/requests/items.py",
        old="begin = passed_over if _keeps_all(session.topic(node)) else 0",
        new="begin = passed_over",
        tests=(
            f"{_XMPP}/test_node_options.py"
            "::test_what_takes_no_room_is_shown_beside_what_nobody_has_removed_yet",
        ),
    ),
    Mutation(
        name="in front of an item that no node has is the end of the node",
        file="plugins/xmpp/requests/items.py",
        old=" and int(place)):",
        new="):",
        tests=(f"{_XMPP}/test_pages.py::test_the_newest_items_are_found_and_paged_through_backwards",),
    ),
    Mutation(
        name="an assured message that is damaged is never replaced",
        file="plugins/xmpp/requests/qos.py",
        old="    if known is not None and known.message is not _UNREADABLE:",
        new="    if known is not None:",
        tests=(
            f"{_XMPP}/test_qos.py::test_what_cannot_be_read_back_is_replaced_when_its_sender_sends_it_again",
        ),
    ),
    Mutation(
        name="what replaces a damaged assured message leaves it where it was",
        file="plugins/xmpp/requests/qos.py",
        old="            request.client.session.remove(_topic(request), before.smuid)\n",
        new="            pass\n",
        tests=(
            f"{_XMPP}/test_qos.py::test_what_cannot_be_read_back_is_replaced_when_its_sender_sends_it_again",
        ),
    ),
    Mutation(
        name="a damaged assured message passes for delivered once a copy of it found no room",
        file="plugins/xmpp/known/assured.py",
        old="            if replaced is not None:",
        new="            if False:",
        tests=(
            f"{_XMPP}/test_qos.py::test_what_cannot_be_read_back_and_finds_no_room_is_still_to_be_sent_again",
        ),
    ),
    Mutation(
        name="a damaged assured message passes for delivered once a copy of it could not be stored",
        file="plugins/xmpp/requests/qos.py",
        old="        _forget(request, msg_id, before)\n",
        new="        _forget(request, msg_id)\n",
        tests=(
            f"{_XMPP}/test_qos.py::test_what_cannot_be_read_back_and_is_not_stored_again_is_still_to_be_sent_again",
        ),
    ),
    Mutation(
        name="an assured message counts as little as its text, whatever names are in it",
        file="plugins/xmpp/known/assured.py",
        old="        self.memory += sum(map(text_bytes, names))",
        new="        pass",
        tests=(f"{_XMPP}/test_qos.py::test_what_is_held_counts_in_the_memory_that_all_front_ends_share",),
    ),
    Mutation(
        name="an assured message counts as its characters, and takes four times that",
        file="plugins/xmpp/known/assured.py",
        old='text_bytes(element.text or "")',
        new='len(element.text or "")',
        tests=(f"{_XMPP}/test_qos.py::test_what_is_held_counts_in_the_memory_that_all_front_ends_share",),
    ),
    Mutation(
        name="all that have an id are looked at for the newest",
        file="plugins/xmpp/known/item_index.py",
        old="self.held(session, node, id, at_least=1)",
        new="self.held(session, node, id)",
        tests=(
            f"{_XMPP}/test_bounds.py::test_the_newest_item_of_an_id_is_found_at_once_however_many_have_it",
        ),
    ),
    Mutation(
        name="the loop looks through all that was repeated at once",
        file="plugins/xmpp/known/item_index.py",
        old="            if looked_at >= PAGE:",
        new="            if False:",
        tests=(
            f"{_XMPP}/test_bounds.py::test_others_run_while_a_node_is_looked_through_for_what_has_made_room",
        ),
    ),
    Mutation(
        name="an id that is repeated no more is looked through for ever",
        file="plugins/xmpp/known/item_index.py",
        old="            self.repeated.discard(id)\n",
        new="            pass\n",
        tests=(
            f"{_XMPP}/test_bounds.py::test_others_run_while_a_node_is_looked_through_for_what_has_made_room",
        ),
    ),
    Mutation(
        name="the items of every node are remembered for ever",
        file="plugins/xmpp/known/item_index.py",
        old="if len(self._nodes) > NODES_MAX:",
        new="if False:",
        tests=(f"{_XMPP}/test_bounds.py::test_the_items_of_a_bounded_number_of_nodes_are_known",),
    ),
    Mutation(
        name="what somebody else publishes beside an assured message is one of its sender",
        file="plugins/xmpp/requests/qos.py",
        old="held.stored.message.account == login",
        new='held.stored.message.account.partition(":")[0] == client.session.account',
        tests=(f"{_XMPP}/test_qos.py::test_what_somebody_else_puts_beside_it_is_not_what_was_received",),
    ),
]
