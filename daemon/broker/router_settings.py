"""The part of the configuration that decides over messages."""

from daemon.settings import Settings
from routing.state import RouterSettings


def router_settings(settings: Settings) -> RouterSettings:
    """Its values, as the router takes them."""
    return RouterSettings(
        **{name: getattr(settings.queues, name) for name in RouterSettings.__struct_fields__}
    )
