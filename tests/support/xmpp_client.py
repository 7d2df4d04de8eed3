"""What every XMPP client of the tests does with the stanzas that come for it."""

from typing import ClassVar
from xml.etree.ElementTree import Element

import trio

from plugins.xmpp.wire.namespaces import COMPONENT


class StanzaClient:
    """One full JID; what comes for it is put into `stanzas_in`, its names in the component's namespace."""

    service: ClassVar[str]
    """Who is asked where nobody is named."""

    patience_s: ClassVar[float]

    def __init__(self, stanzas_max: float) -> None:
        self.stanzas_in, self.stanzas = trio.open_memory_channel[Element](stanzas_max)

    async def send(self, text: str) -> None:
        raise NotImplementedError

    async def receive(self) -> Element:
        with trio.fail_after(self.patience_s):
            return await self.stanzas.receive()

    async def iq(self, kind: str, content: str, id: str = "1", to: str = "") -> Element:
        """Ask, and take what comes until the answer is there; what came before it stays to be received."""
        await self.send(f"<iq type='{kind}' id='{id}' to='{to or self.service}'>{content}</iq>")
        return await self.answer(id)

    async def answer(self, id: str | None) -> Element:
        others = []
        while (stanza := await self.receive()).tag != f"{{{COMPONENT}}}iq" or stanza.get("id") != id:
            others.append(stanza)
        for other in others:
            self.stanzas_in.send_nowait(other)
        return stanza

    def quiet(self) -> bool:
        return not self.stanzas.statistics().current_buffer_used
