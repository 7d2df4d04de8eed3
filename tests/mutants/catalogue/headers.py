"""Contract 2: headers."""

from tests.mutants.mutation import Mutation

MUTATIONS = [
    Mutation(
        name="a queue knows no priority",
        file="routing/queue.py",
        old="insort(self._priorities, -priority)",
        new="self._priorities.append(-priority)",
        tests=(
            "tests/routing/test_router_delivery.py::test_a_higher_priority_goes_first_and_one_priority_first_in_first_out",
        ),
    ),
    Mutation(
        name="priority is ignored on links",
        file="daemon/broker/federating.py",
        old="Lane.URGENT if entry.priority >= URGENT_PRIORITY else Lane.BULK",
        new="Lane.BULK",
        tests=(
            "tests/daemon/broker/test_federating.py::test_a_message_of_high_priority_goes_in_a_lane_of_its_own",
        ),
    ),
    Mutation(
        name="an unguaranteed message is the default",
        file="routing/message.py",
        old="guarantee: bool = True",
        new="guarantee: bool = False",
        tests=("tests/routing/test_headers.py",),
    ),
    Mutation(
        name="depth has no limit by default",
        file="routing/message.py",
        old="depth: int = 0",
        new="depth: int = -1",
        tests=("tests/routing/test_headers.py",),
    ),
    Mutation(
        name="a header that SMQP does not know is dropped",
        file="routing/headers.py",
        old="others.append(header)",
        new="pass",
        tests=("tests/routing/test_headers.py",),
    ),
    Mutation(
        name="the mode of the topic does not win",
        file="routing/matching.py",
        old='topic.mode or message.delivery or "ALL"',
        new='message.delivery or topic.mode or "ALL"',
        tests=("tests/routing/test_router_delivery.py::test_set_topic_delivery_wins_over_what_messages_say",),
    ),
    Mutation(
        name="a message that says nothing goes to one",
        file="routing/matching.py",
        old='topic.mode or message.delivery or "ALL"',
        new='topic.mode or message.delivery or "ONE"',
        tests=(
            "tests/routing/test_router_delivery.py::test_a_message_of_mode_all_reaches_every_subscription_once",
        ),
    ),
    Mutation(
        name="a site does not add its name to Hops",
        file="daemon/broker/federating.py",
        old="hops=(*d.copy.hops, self._door.server)",
        new="hops=d.copy.hops",
        tests=("tests/daemon/broker/test_federation.py::test_a_message_crosses_a_link_and_its_copies_end",),
    ),
    Mutation(
        name="header lines of sections have no bound together",
        file="routing/frames.py",
        old="unfinished.header_bytes + len(head),",
        new="0,",
        tests=("tests/routing/test_frames.py::test_header_bytes_of_sections_count_as_those_of_their_frame",),
    ),
    Mutation(
        name="of an item of XMPP the headers of sections are not counted with its others",
        file="plugins/xmpp/forms/payload.py",
        old="lines = [*headers, *(header for section in sections for header in section.headers)]",
        new="lines = headers",
        tests=("tests/plugins/xmpp/test_refusals.py",),
    ),
    Mutation(
        name="the id of a subscription of STOMP has any length",
        file="plugins/stomp/subscription.py",
        old="len(id.encode()) > ID_BYTES_MAX",
        new="False",
        tests=("tests/plugins/stomp/test_limits.py::test_a_subscription_with_a_very_long_id_is_refused",),
    ),
    Mutation(
        name="characters that take four bytes count as one",
        file="routing/message.py",
        old="return len(text) if text.isascii() else text.__sizeof__()",
        new="return len(text)",
        tests=(
            "tests/routing/test_router_publishing.py::test_unguaranteed_messages_without_bodies_take_memory_too",
        ),
    ),
    Mutation(
        name="headers of sections take no memory",
        file="routing/message.py",
        old="for name, value in section.headers:",
        new="for name, value in ():",
        tests=(
            "tests/routing/test_router_publishing.py::test_unguaranteed_messages_without_bodies_take_memory_too",
        ),
    ),
    Mutation(
        name="of what a session is handed all is read at once, however long its headers are",
        file="daemon/broker/outbox.py",
        old="load_some(unread, EVENTS_BYTES)",
        new="load_some(unread, 10**12)",
        tests=(
            "tests/daemon/broker/test_outbox.py::test_of_messages_with_long_headers_few_are_read_from_the_disk_at_a_time",
        ),
    ),
]
