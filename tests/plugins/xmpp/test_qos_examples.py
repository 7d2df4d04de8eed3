"""Every example of urn:xmpp:qos, by title, through a real Prosody and a real ejabberd.

The examples are between two clients; the service stands in for one of them, first as the receiver, then
as the sender. What is sent is the example itself, and what comes is compared with it, element by element
(see `tests.support.xmpp_listings`), with the document's slips mended: an end tag that is another element's,
and `>` in the middle of a tag.
"""

from pathlib import Path
from typing import Any

from daemon.frontend import Delivered, Identity, SubscribeOptions
from plugins.xmpp.settings import JidRule
from plugins.xmpp.wire.namespaces import EVENT_LOG, QOS
from routing.message import Message, Section
from tests.support.xmpp_listings import here, missing, parsed
from tests.support.xmpp_pubsub import PUBSUB, child, error_of
from tests.support.xmpp_real import ready, site_at
from tests.support.xmpp_servers import COMPONENT_NAME, RealServer, log_in

MOMENTARY_VALUE = """
<message from='temperaturesensor@example.org/34892374' to='user@example.org/938089023'>
  <fields xmlns='urn:xmpp:iot:sensordata' seqnr='1' done='true'>
    <node nodeId='Temp01'>
      <timestamp value='2015-11-11T22:01:30'>
        <numeric name='Temperature' momentary='true' automaticReadout='true' value='23.4' unit='°C'/>
      </timestamp>
    </node>
  </fields>
</message>"""

LIGHT = "<set xmlns='urn:xmpp:iot:control'><int name='Light' value='80'/></set>"
SETTING_LIGHT_LEVEL = f"""
<iq id='123' type='set' from='controller@example.org/34892374' to='lightswitch@example.org/938089023'>
  <qos:acknowledged xmlns:qos='urn:xmpp:qos'><message>{LIGHT}</message></qos:acknowledged>
</iq>"""
LIGHT_LEVEL_IS_SET = """
<iq id='123' type='result' from='lightswitch@example.org/938089023' to='controller@example.org/34892374'/>"""

ENTERED = (
    "<log xmlns='urn:xmpp:eventlog' timestamp='2015-11-12T09:07:12Z' id='Entered'>"
    "<message>Entered.</message></log>"
)
LEFT = (
    "<log xmlns='urn:xmpp:eventlog' timestamp='2015-11-12T11:23:54Z' id='Left'><message>Left.</message></log>"
)


def counting(who: str, msg_id: str, first: int, event: str) -> list[tuple[str, str]]:
    """The two requests of an assured message, each with its answer."""
    sender, counter = f"{who}@example.org/34892374", "counter@example.org/938089023"
    return [
        (
            f"<iq id='{first}' type='set' from='{sender}' to='{counter}'>"
            f"<qos:assured xmlns:qos='urn:xmpp:qos' msgId='{msg_id}'>"
            f"<message>{event}</message></qos:assured></iq>",
            f"<iq id='{first}' type='result' from='{counter}' to='{sender}'>"
            f"<received xmlns='urn:xmpp:qos' msgId='{msg_id}'/></iq>",
        ),
        (
            f"<iq id='{first + 1}' type='set' from='{sender}' to='{counter}'>"
            f"<qos:deliver xmlns:qos='urn:xmpp:qos' msgId='{msg_id}'/></iq>",
            f"<iq id='{first + 1}' type='result' from='{counter}' to='{sender}'/>",
        ),
    ]


COUNTING_CARS = [
    *counting("entrance", "984232334", 123, ENTERED),
    *counting("exit", "4645623466", 456, LEFT),
]


def listener(site: Any, topic: str) -> Any:
    session = site.open_session(Identity(account="ada"), "counter", protocol="test", remote="")
    session.subscribe(topic, SubscribeOptions(), request="subscribed")
    return session


async def deliveries(session: Any, count: int) -> list[Message]:
    out: list[Message] = []
    while len(out) < count:
        out += [event.stored.message for event in await session.events() if isinstance(event, Delivered)]
    return out


def differences(messages: list[Message], *contents: str) -> list[str]:
    """A server may write the attributes of an element in another order."""
    assert len(messages) == len(contents)
    found = (parsed(message.sections[0].body.decode()) for message in messages)
    return [
        text for element, content in zip(found, contents, strict=True) for text in missing(element, content)
    ]


# -- towards the service ----------------------------------------------------------------------------


async def test_sensor_sending_a_momentary_value(server: RealServer, tmp_path: Path) -> None:
    async with site_at(server, tmp_path / "site") as (_, site, nursery):
        sensor = await log_in(server.c2s, nursery, "ada", "34892374")
        await ready(sensor)
        session = listener(site, "readings")
        await sensor.send(here(MOMENTARY_VALUE))
        fields = MOMENTARY_VALUE[MOMENTARY_VALUE.index("<fields") : MOMENTARY_VALUE.index("</message>")]
        assert differences(await deliveries(session, 1), fields) == []
        await ready(sensor)
        assert sensor.quiet()
        session.close()


async def test_setting_light_level(server: RealServer, tmp_path: Path) -> None:
    async with site_at(server, tmp_path / "site") as (_, site, nursery):
        controller = await log_in(server.c2s, nursery, "ada", "34892374")
        await ready(controller)
        session = listener(site, "lightswitch")
        answer = await controller.exchange(here(SETTING_LIGHT_LEVEL))
        assert missing(answer, LIGHT_LEVEL_IS_SET) == []
        assert len(answer) == 0
        assert differences(await deliveries(session, 1), LIGHT) == []
        session.close()


async def test_counting_cars_or_individuals_in_a_closed_space(server: RealServer, tmp_path: Path) -> None:
    async with site_at(server, tmp_path / "site") as (_, site, nursery):
        clients = {
            "ada@localhost": await log_in(server.c2s, nursery, "ada", "34892374"),
            "bob@localhost": await log_in(server.c2s, nursery, "bob", "34892374"),
        }
        await ready(clients["ada@localhost"])
        session = listener(site, "counter")
        for request, answer in COUNTING_CARS:
            sender = clients[parsed(here(request)).get("from", "").partition("/")[0]]
            # each step is repeated, as it is where an answer is late
            for _ in range(2):
                assert missing(await sender.exchange(here(request)), answer) == []
        assert differences(await deliveries(session, 2), ENTERED, LEFT) == []
        await ready(clients["ada@localhost"])
        assert site.broker._router._state.topics["counter"].messages == 2
        session.close()


async def test_service_discovery_information_request_and_response(server: RealServer, tmp_path: Path) -> None:
    async with site_at(server, tmp_path / "site") as (_, _, nursery):
        client = await log_in(server.c2s, nursery, "ada", "x")
        await ready(client)
        for device in (COMPONENT_NAME, f"readings@{COMPONENT_NAME}"):
            answer = await client.exchange(
                f"<iq type='get' from='ada@localhost/x' to='{device}' id='disco1'>"
                "<query xmlns='http://jabber.org/protocol/disco#info'/></iq>"
            )
            if device == COMPONENT_NAME:
                publish = f"<publish node='readings'><item id='i'>{LIGHT}</item></publish>"
                await client.iq("set", f"<pubsub xmlns='{PUBSUB}'>{publish}</pubsub>")
            response = (
                f"<iq type='result' from='{device}' to='ada@localhost/x' id='disco1'>"
                "<query xmlns='http://jabber.org/protocol/disco#info'>"
                "<feature var='urn:xmpp:qos'/></query></iq>"
            )
            assert missing(answer, response) == []


# -- from the service -------------------------------------------------------------------------------


async def told(site: Any, client: Any, topic: str, level: str | None, content: str, number: int = 1) -> None:
    """Subscribe the client to a plain node at a level, and publish one message to it by another front end."""
    session = site.open_session(Identity(account="ada"), f"p{number}", protocol="test", remote="")
    session.set_delivery(topic, "ALL", request="set")
    asked = "" if level is None else f"<field var='{{urn:smqp:xmpp:0}}qos'><value>{level}</value></field>"
    options = (
        "<options><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE' type='hidden'>"
        f"<value>{PUBSUB}#subscribe_options</value></field>{asked}</x></options>"
    )
    text = f"<pubsub xmlns='{PUBSUB}'><subscribe jid='{client.jid}' node='{topic}'/>{options}</pubsub>"
    assert (await client.iq("set", text, id="s")).get("type") == "result"
    section = Section("application/xml", content.encode())
    session.publish(topic, Message(sections=(section,), others=(("Item-Id", f"i{number}"),)), request="put")
    while site.broker.held < 1:
        await session.events()
    session.close()


def event(topic: str, content: str) -> str:
    items = f"<items node='{topic}'><item id='i1'>{content}</item></items>"
    return f"<event xmlns='{PUBSUB}#event'>{items}</event>"


async def settled(site: Any, client: Any) -> None:
    """The service holds nothing any more."""
    while site.broker.held:
        await ready(client)


async def test_sensor_sending_a_momentary_value_to_a_client(server: RealServer, tmp_path: Path) -> None:
    async with site_at(server, tmp_path / "site") as (_, site, nursery):
        user = await log_in(server.c2s, nursery, "bob", "938089023")
        await ready(user)
        fields = "<fields xmlns='urn:xmpp:iot:sensordata' seqnr='1' done='true'/>"
        await told(site, user, "readings", "none", fields)
        message = f"<message from='{COMPONENT_NAME}' to='{user.jid}'>{event('readings', fields)}</message>"
        assert missing(await user.receive(), message.replace("<message ", "<message id='any' ")) == []
        await settled(site, user)


async def test_setting_light_level_of_a_client(server: RealServer, tmp_path: Path) -> None:
    async with site_at(server, tmp_path / "site") as (_, site, nursery):
        switch = await log_in(server.c2s, nursery, "bob", "938089023")
        await ready(switch)
        await told(site, switch, "light", "acknowledged", LIGHT)
        # unanswered, it comes again under the same id
        first, again = await switch.receive(), await switch.receive()
        for request in (first, again):
            expected = (
                f"<iq id='{first.get('id')}' type='set' from='{COMPONENT_NAME}' to='{switch.jid}'>"
                "<qos:acknowledged xmlns:qos='urn:xmpp:qos'>"
                f"<message xmlns='jabber:client'>{event('light', LIGHT)}</message></qos:acknowledged></iq>"
            )
            assert missing(request, expected) == []
            [message] = request[0]
            assert not {"to", "from"} & set(message.attrib)
        assert site.broker.held == 1
        await switch.send(f"<iq id='{first.get('id')}' type='result' to='{COMPONENT_NAME}'/>")
        await settled(site, switch)


async def test_counting_cars_or_individuals_in_a_closed_space_by_a_client(
    server: RealServer, tmp_path: Path
) -> None:
    async with site_at(server, tmp_path / "site") as (_, site, nursery):
        # it answers the service's own disco#info with the feature, and says nothing else about it
        counter = await log_in(server.c2s, nursery, "bob", "938089023", QOS)
        await ready(counter)
        await told(site, counter, "cars", None, ENTERED)
        first, again = await counter.receive(), await counter.receive()
        msg_id = first[0].get("msgId")
        for request in (first, again):
            expected = (
                f"<iq id='{first.get('id')}' type='set' from='{COMPONENT_NAME}' to='{counter.jid}'>"
                f"<qos:assured xmlns:qos='urn:xmpp:qos' msgId='{msg_id}'>"
                f"<message xmlns='jabber:client'>{event('cars', ENTERED)}</message></qos:assured></iq>"
            )
            assert missing(request, expected) == []
        # as the document has it: without a namespace of its own
        received = f"<received msgId='{msg_id}'/>"
        await counter.send(f"<iq id='{first.get('id')}' type='result' to='{COMPONENT_NAME}'>{received}</iq>")
        second = await counter.receive()
        deliver = (
            f"<iq id='{second.get('id')}' type='set' from='{COMPONENT_NAME}' to='{counter.jid}'>"
            f"<qos:deliver xmlns:qos='urn:xmpp:qos' msgId='{msg_id}'/></iq>"
        )
        assert second.get("id") != first.get("id")
        assert missing(second, deliver) == []
        assert site.broker.held == 1
        await counter.send(f"<iq id='{second.get('id')}' type='result' to='{COMPONENT_NAME}'/>")
        await settled(site, counter)


# -- Security Considerations ------------------------------------------------------------------------


async def test_to_and_from_attributes_of_the_embedded_message_count_for_nothing(
    server: RealServer, tmp_path: Path
) -> None:
    async with site_at(server, tmp_path / "site") as (_, site, nursery):
        entrance = await log_in(server.c2s, nursery, "ada", "34892374")
        await ready(entrance)
        session, other = listener(site, "counter"), listener(site, "other")
        forged = f"<message from='bob@localhost/x' to='other@{COMPONENT_NAME}'>"
        for request, answer in COUNTING_CARS[:2]:
            text = here(request).replace("<message>", forged, 1)
            assert missing(await entrance.exchange(text), answer) == []
        [message] = await deliveries(session, 1)
        assert message.account.startswith("ada:ada-34892374.")
        assert site.broker.held == 1
        for each in (session, other):
            each.close()


async def test_memory_attacks_of_the_untrusted_are_not_allowed_and_logged(
    server: RealServer, tmp_path: Path
) -> None:
    rules = (JidRule(jid="ada@localhost", account="ada"),)
    changes = {"accounts": rules, "event_log": "ada@localhost/log"}
    async with site_at(server, tmp_path / "site", **changes) as (_, site, nursery):
        admin = await log_in(server.c2s, nursery, "ada", "log")
        stranger = await log_in(server.c2s, nursery, "bob", "34892374")
        await ready(admin)
        answer = await stranger.exchange(here(COUNTING_CARS[2][0]))
        assert error_of(answer) == ("cancel", "not-allowed")
        log = child((await admin.receive()), f"{{{EVENT_LOG}}}log")
        assert (log.get("subject"), log.get("type")) == (stranger.jid, "Warning")
        assert site.broker.held == 0


async def test_memory_attacks_of_one_source_and_of_all_meet_a_limit(
    server: RealServer, tmp_path: Path
) -> None:
    limits = {"assured_messages_max": 2, "assured_messages_total_max": 3}
    async with site_at(server, tmp_path / "site", **limits) as (_, _, nursery):
        ada = await log_in(server.c2s, nursery, "ada", "34892374")
        bob = await log_in(server.c2s, nursery, "bob", "34892374")
        await ready(ada)
        assured, deliver = COUNTING_CARS[0][0], COUNTING_CARS[1][0]

        async def send(client: Any, request: str, msg_id: str) -> Any:
            text = here(request).replace("984232334", msg_id).replace("ada@localhost/34892374", client.jid)
            return await client.exchange(text)

        for client, msg_id in ((ada, "1"), (ada, "2")):
            assert (await send(client, assured, msg_id)).get("type") == "result"
        # of one source
        assert error_of(await send(ada, assured, "3")) == ("wait", "resource-constraint")
        assert (await send(bob, assured, "1")).get("type") == "result"
        # of all
        assert error_of(await send(bob, assured, "2")) == ("wait", "resource-constraint")
        assert (await send(ada, deliver, "1")).get("type") == "result"
        assert (await send(bob, assured, "2")).get("type") == "result"
