"""A table: its rows by name, and how they are read back one by one, so that a damaged one harms no other.

SQLite checks no types, and does not see a flipped bit. So each row is checked against the columns that its
kind states (`daemon.store.tables`): types, ranges, JSON. A column that is damaged and has a default in its
kind is mended; where one has none, the row is left out. Both are logged, the first few of them one by one,
and written once all is read.
"""

import logging
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

import msgspec

_log = logging.getLogger(__name__)

ROWS_AT_A_TIME: Final = 200
SHOWN_MAX: Final = 200
"""Characters of a damaged row in the log."""

TOLD_MAX: Final = 20
"""Damaged rows in the log, one by one; those that follow are counted."""

_STORAGE: Final = {type(None): "null", int: "integer", float: "real", str: "text", bytes: "blob"}


class Row(msgspec.Struct, array_like=True, gc=False):
    """The columns of a table, in its order; a default is what stands for a column that is damaged."""


class NotText(bytes):
    """What a column of text has in it where that is not UTF-8."""


_RowT = TypeVar("_RowT", bound=Row)
Mend = Callable[[dict[str, Any], list[str]], _RowT | None]
"""From the columns as they were read, and the names of those that are damaged; None leaves the row out."""


class Table(Generic[_RowT]):
    """How rows of one kind are written and read.

    Args:
        kind: its fields are columns; those of `besides` are not.
        key: the columns that tell rows apart.
        json: columns that hold JSON.
        checks: of a column whose type does not say it all, whether a value may stand there.
        in_place: what is mended is written back; False where the router sees to that. What cannot be mended
            is deleted either way.
        left_out: a statement that is executed with the key of each row that is deleted so.

    Attributes:
        insert, put, select, delete: statements; `put` replaces what has the same key, and `select` is of all
            rows, to be narrowed.
    """

    def __init__(
        self,
        name: str,
        kind: type[_RowT],
        *,
        key: tuple[str, ...] = ("id",),
        json: tuple[str, ...] = (),
        checks: Mapping[str, Callable[[Any], object]] | None = None,
        besides: tuple[str, ...] = (),
        in_place: bool = True,
        left_out: str = "",
    ) -> None:
        self.name = name
        self.kind = kind
        self.key = key
        self.in_place = in_place
        self.left_out = left_out
        self.columns = tuple(column for column in kind.__struct_fields__ if column not in besides)
        listed, marks = ", ".join(self.columns), ", ".join("?" * len(self.columns))
        self.insert = f"INSERT INTO {name} ({listed}) VALUES ({marks})"
        self.put = f"INSERT OR REPLACE INTO {name} ({listed}) VALUES ({marks})"
        self.select = f"SELECT {listed} FROM {name}"
        self.delete = f"DELETE FROM {name} WHERE {' AND '.join(f'{column} = ?' for column in key)}"
        self._fields = {field.name: field for field in msgspec.structs.fields(kind)}
        self._json = tuple(
            (self.columns.index(column), msgspec.json.Decoder(self._fields[column].type).decode)
            for column in json
        )
        self._rows = list[kind]  # type: ignore[valid-type] # a type that is only known now
        self._checks = {column: (attrgetter(column), check) for column, check in (checks or {}).items()}

    def stored(self, row: _RowT) -> tuple[Any, ...]:
        """A row's values for `insert` and `put`."""
        values = list(msgspec.structs.astuple(row)[: len(self.columns)])
        for at, _ in self._json:
            values[at] = msgspec.json.encode(values[at]).decode()
        return tuple(values)

    def checked(self, chunk: list[tuple[Any, ...]]) -> list[_RowT]:
        """Rows as values. Raises msgspec.ValidationError where one is damaged."""
        if self._json:
            chunk = [self._decoded(values) for values in chunk]
        rows: list[_RowT] = msgspec.convert(chunk, self._rows, str_keys=True)
        for column, (value_of, may_stand) in self._checks.items():
            if not all(map(may_stand, set(map(value_of, rows)))):
                raise msgspec.ValidationError(f"{self.name}: {column}")
        return rows

    def damaged_columns(self, values: tuple[Any, ...]) -> list[str]:
        """The names of those that hold what they cannot."""
        decoded = zip(self.columns, self._decoded(values), strict=True)
        return [column for column, value in decoded if not self._may_stand(column, value)]

    def _may_stand(self, column: str, value: Any) -> bool:
        try:
            converted = msgspec.convert(value, self._fields[column].type, str_keys=True)
        except msgspec.ValidationError:
            return False
        return column not in self._checks or bool(self._checks[column][1](converted))

    def mend(self, columns: dict[str, Any], damaged: list[str]) -> _RowT | None:
        """A row in which each damaged column has its default; None where one has none."""
        if any(self._fields[column].required for column in damaged):
            return None
        decoded = self._decoded(tuple(columns.values()))
        whole = {
            column: msgspec.convert(value, self._fields[column].type, str_keys=True)
            for column, value in zip(columns, decoded, strict=True)
            if column not in damaged
        }
        return self.kind(**whole)

    def _decoded(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        if not self._json:
            return values
        decoded = list(values)
        for at, decode in self._json:
            if isinstance(decoded[at], str):
                with suppress(msgspec.DecodeError):  # text is no value of such a column
                    decoded[at] = decode(decoded[at])
        return tuple(decoded)


class RowDamage(msgspec.Struct):
    """A row that was damaged; `mended` is None where it is left out."""

    table: Table[Any]
    values: tuple[Any, ...]
    columns: list[str]
    mended: Row | None

    def __str__(self) -> str:
        shown = ", ".join(
            f"{column} {value!r}" for column, value in zip(self.table.columns, self.values, strict=True)
        )
        return f"{self.table.name}: {', '.join(self.columns)} ({shown[:SHOWN_MAX]})"


class Tables:
    """Reads tables over a connection; from the first text on that is not UTF-8, that has those as `NotText`.

    Attributes:
        damage: what was found, and is to be mended.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._found: Counter[str] = Counter()  # by table
        self.damage: list[RowDamage] = []

    @property
    def count(self) -> int:
        """How much was found in all."""
        return self._found.total()

    def rows(
        self,
        table: Table[_RowT],
        narrowed: str = "",
        values: tuple[Any, ...] = (),
        mend: Mend[_RowT] | None = None,
        is_needed: Callable[[tuple[Any, ...]], bool] | None = None,
    ) -> Iterator[_RowT]:
        """The rows of a table, mended where they have to be (`Table.mend` where nothing else is said).

        `is_needed`: of the columns as they were read, whether anybody wants the row; None for each.
        """
        for chunk in self._chunks(f"{table.select} {narrowed}", values):
            if is_needed is not None:
                chunk = list(filter(is_needed, chunk))
            try:
                rows: Iterable[_RowT] = table.checked(chunk)
            except msgspec.ValidationError:
                rows = self._mended(table, chunk, mend or table.mend)
            yield from rows

    def _chunks(self, sql: str, values: tuple[Any, ...]) -> Iterator[list[tuple[Any, ...]]]:
        cursor = self._connection.execute(sql, values)
        count = 0
        while True:
            try:
                chunk = cursor.fetchmany(ROWS_AT_A_TIME)
            except sqlite3.OperationalError:
                if self._connection.text_factory is tolerant_text:
                    raise
                # asking a function of ours about each text costs more than all else; so only now
                self._connection.text_factory = tolerant_text
                cursor = self._connection.execute(sql, values)
                for _ in range(0, count, ROWS_AT_A_TIME):
                    cursor.fetchmany(ROWS_AT_A_TIME)
                continue
            if not chunk:
                return
            count += len(chunk)
            yield chunk

    def first(self, sql: str, *values: Any) -> Any:
        """The first column of the first row that a query finds; None where it finds none."""
        row = self._connection.execute(sql, values).fetchone()
        return None if row is None else row[0]

    def _mended(
        self, table: Table[_RowT], chunk: list[tuple[Any, ...]], mend: Mend[_RowT]
    ) -> Iterator[_RowT]:
        for values in chunk:
            columns = table.damaged_columns(values)
            if not columns:
                yield from table.checked([values])
                continue
            row = mend(dict(zip(table.columns, values, strict=True)), columns)
            damage = RowDamage(table, values, columns, row)
            self._tell(damage)
            if table.in_place or row is None:
                self.damage.append(damage)
            if row is not None:
                yield row

    def _tell(self, damage: RowDamage) -> None:
        self._found[damage.table.name] += 1
        if self.count > TOLD_MAX:
            return
        if damage.mended is None:
            done = "left out"
        else:
            done = "mended" if damage.table.in_place else "taken as far as it is whole"
        _log.error("a row of the store is damaged and was %s: %s", done, damage)
        if self.count == TOLD_MAX:
            _log.error("damaged rows of the store are only counted from here on; smqpd status says how many")

    def mend(self) -> None:
        """Write to the store what became of what was damaged, in a transaction of its own.

        Where the store cannot be written, the damage stays, and is found again at the next start.
        """
        if self.count > TOLD_MAX:
            counts = ", ".join(f"{count} in {table}" for table, count in self._found.most_common())
            _log.error("%d rows of the store are damaged: %s", self.count, counts)
        damaged, self.damage = self.damage, []
        if not damaged:
            return
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for damage in damaged:
                for sql, bound in _instead(damage):
                    self._connection.execute(sql, bound)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            _log.error("what is damaged in the store stays there until the next start: %s", error)
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")


def _instead(damage: RowDamage) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The statements that put the mended row in the place of the damaged one, or delete that."""
    table = damage.table
    if damage.mended is not None:
        yield table.put, table.stored(damage.mended)
        return
    key = [value for column, value in zip(table.columns, damage.values, strict=True) if column in table.key]
    where = " AND ".join(
        f"typeof({column}) = ? AND CAST({column} AS BLOB) IS CAST(? AS BLOB)" for column in table.key
    )
    bound = tuple(each for value in key for each in (_storage(value), value))
    yield f"DELETE FROM {table.name} WHERE {where}", bound
    if table.left_out:
        yield table.left_out, tuple(key)


def _storage(value: Any) -> str:
    """SQLite's word for how a value is stored."""
    return "text" if isinstance(value, NotText) else _STORAGE[type(value)]


def tolerant_text(value: bytes) -> str | NotText:
    """The text that a column holds, for connections; NotText for what is no UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return NotText(value)
