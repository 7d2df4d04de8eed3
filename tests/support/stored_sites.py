"""A federation whose sites keep what they have to in a store, and can be killed and started again."""

import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from daemon.store.batch import Batch
from daemon.store.changes import Surroundings
from daemon.store.store import Store
from routing.decisions import Decision, DiscardMessage, StoreMessage
from routing.frames import encode_message
from routing.peering.copies import PeerRules
from routing.peering.news import DESTINATIONS
from routing.queue import GUARANTEED
from routing.router import Router
from tests.support.sites import SETTINGS, RouterFederation


class StoredFederation(RouterFederation):
    """As `RouterFederation`; what a router decides is on disk before anybody hears of it.

    Attributes:
        features: what each site says in its news that it knows; () for one that names no destinations.
    """

    def __init__(
        self,
        directory: Path,
        links: set[tuple[str, str]],
        seed: int = 0,
        *,
        old: Collection[str] = (),
        rules: Mapping[tuple[str, str], PeerRules] = MappingProxyType({}),
    ) -> None:
        self._directory = directory
        self._rules = dict(rules)
        self.stores: dict[str, Store] = {}
        self._batches: dict[str, Batch] = {}
        self.peers: dict[str, list[str]] = {}
        for a, b in sorted(links):
            self.peers.setdefault(a, []).append(b)
            self.peers.setdefault(b, []).append(a)
        self.features = {name: () if name in old else (DESTINATIONS,) for name in self.peers}
        self.consumers: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
        super().__init__(links, seed, old=old, rules=rules)

    def _begin(self, site: str) -> Router:
        store = Store(self._directory / f"{site}.db")
        router = Router(site, store.site.boot, SETTINGS, lambda: 1_700_000_000_000, store.recall)
        copies = router.federation.outlook.copies
        self.stores[site] = store
        self._batches[site] = Batch(
            Surroundings(site, lambda: self.now, lambda: store.stopped_s, lambda: 0, copies)
        )
        store.restore_into(router.restore(self.now), self.now, SETTINGS.dedupe_window_s)
        return router

    def take(self, site: str) -> None:
        router, batch, store = self.routers[site], self._batches[site], self.stores[site]
        decisions = router.take()
        for decision in decisions:
            self._put(batch, decision)
        if batch:
            store.write(batch, 0, (self.now, 0.0, "", 0.0))
            store.commit()
            batch.clear()
        self._carry_out(site, decisions)

    @staticmethod
    def _put(batch: Batch, decision: Decision) -> None:
        if isinstance(decision, StoreMessage):
            batch.begin_message(decision, encode_message(decision.message, decision.head))
        elif isinstance(decision, DiscardMessage):
            if decision.entry.flags & GUARANTEED:
                batch.end_message(decision.entry)
        elif (handler := batch.handlers.get(type(decision))) is not None:
            handler(decision)

    def subscribe(self, site: str, topic: str = "t", channel: str = "c", **options: Any) -> Any:
        options = {"lock_s": 1e9, **options}
        known = self.consumers.setdefault(site, [])
        if (topic, channel, options) not in known:
            known.append((topic, channel, options))
        return super().subscribe(site, topic, channel, **options)

    # -- they end and begin ------------------------------------------------------------------------

    def kill(self, site: str) -> None:
        """What was under way is lost; what it has written is not."""
        for peer in self.peers[site]:
            if (site, peer) in self.links:
                self.links -= {(site, peer), (peer, site)}
                for pair in ((site, peer), (peer, site)):
                    self.bulk.pop(pair, None)
                    self.control.pop(pair, None)
                self.routers[peer].federation.link_down(site)
                self.take(peer)
        self.stores[site].close()
        for key in [key for key in self.held if key[0] == site]:
            del self.held[key]

    def start(self, site: str, *joined: str) -> None:
        """With what it has written, and links with these peers."""
        self.routers[site] = self._begin(site)
        federation = self.routers[site].federation
        federation.set_peers(
            self.now, {peer: self._rules.get((site, peer), PeerRules()) for peer in self.peers[site]}
        )
        if site not in self.old:
            federation.spreading.set_notary(self.notaries[site], self.features[site])
        self.take(site)
        for topic, channel, options in self.consumers.get(site, []):
            super().subscribe(site, topic, channel, **options)
        for peer in joined:
            self.join(site, peer)

    def back_up(self, site: str) -> None:
        """As it is now."""
        store = self.stores[site]
        while not store.empty_wal():
            pass
        shutil.copy(store.path, f"{store.path}.backup")

    def go_back(self, site: str) -> None:
        """After `kill`: to what it was at `back_up`."""
        path = self._directory / f"{site}.db"
        for end in ("-wal", "-shm"):
            Path(f"{path}{end}").unlink(missing_ok=True)
        shutil.copy(f"{path}.backup", path)

    def close(self) -> None:
        for store in self.stores.values():
            store.close()
