"""The part of the configuration that decides over messages."""

from daemon.settings import Settings
from routing.state import RouterSettings


def router_settings(settings: Settings) -> RouterSettings:
    """The values of the settings that the router takes, as it takes them."""
    of_queues = set(RouterSettings.__struct_fields__) - {"news_kept_s"}
    return RouterSettings(
        **{name: getattr(settings.queues, name) for name in of_queues}, news_kept_s=settings.links.news_kept_s
    )
