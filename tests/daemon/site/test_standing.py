import msgspec

from daemon.site.standing import Standing


def test_errors_of_smqpd_itself_are_said_where_there_were_any() -> None:
    def line(errors: int) -> str:
        return Standing(
            server="a.example", version="1", connections=2, held=3, held_guaranteed=3, errors=errors
        ).line

    assert line(0) == "2 connections, 3 messages held"
    assert line(4) == "2 connections, 3 messages held, 4 errors of smqpd itself (see the log)"


def test_damaged_rows_of_the_store_are_said_where_there_are_any() -> None:
    standing = Standing(server="a.example", version="1", connections=2, held=3, held_guaranteed=3, damaged=1)
    assert standing.line == "2 connections, 3 messages held, 1 damaged row in the store (see the log)"


def test_it_is_said_how_much_of_what_is_held_has_a_guarantee_where_not_all_has() -> None:
    standing = Standing(server="a.example", version="1", connections=2, held=3, held_guaranteed=1)
    assert standing.line == "2 connections, 3 messages held (1 guaranteed)"
    of_before = b'{"server": "a.example", "version": "1", "connections": 2, "held": 3}'
    assert msgspec.json.decode(of_before, type=Standing).line == "2 connections, 3 messages held"
