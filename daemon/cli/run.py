"""`smqpd run`: the daemon, in the foreground."""

from daemon.cli.options import DEFAULT_CONFIG, ConfigOption, read_settings


def run(config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Run a site until SIGTERM or SIGINT; SIGHUP reads its files again."""
    settings = read_settings(config)
    # Imported here, so that the other commands need not wait for the whole daemon to load.
    from daemon.run import main

    main(config, settings)
