from daemon.site.standing import Standing


def test_errors_of_smqpd_itself_are_said_where_there_were_any() -> None:
    def line(errors: int) -> str:
        return Standing(server="a.example", version="1", connections=2, held=3, errors=errors).line

    assert line(0) == "2 connections, 3 messages held"
    assert line(4) == "2 connections, 3 messages held, 4 errors of smqpd itself (see the log)"


def test_damaged_rows_of_the_store_are_said_where_there_are_any() -> None:
    standing = Standing(server="a.example", version="1", connections=2, held=3, damaged=1)
    assert standing.line == "2 connections, 3 messages held, 1 damaged rows in the store (see the log)"
