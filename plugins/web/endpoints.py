"""What an endpoint of the API is, what it takes, and the schema that is made of all of them."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import msgspec

from plugins.web.publishing import read_held_body
from routing.errors import Refusal

TAKEN_BYTES_MAX: Final = 65_536
"""Of what is no message."""

T = TypeVar("T")


class Failed(msgspec.Struct, frozen=True):
    """What is told of a request that was refused: a word for programs, and words for people."""

    error: str
    text: str


Parameter = tuple[str, str, bool, str]


class ApiMethod(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path."""

    method: str
    path: str
    about: str
    answer: Callable[[Any], Awaitable[Any]]
    answers: Any
    parameters: tuple[Parameter, ...] = ()
    takes: Any = None

    @property
    def change(self) -> bool:
        """Whether it needs the right to change the site."""
        return self.method == "POST"


def get(path: str, about: str, answer: Any, answers: Any, *parameters: Parameter) -> ApiMethod:
    """One that looks."""
    return ApiMethod(
        method="GET", path=path, about=about, answer=answer, answers=answers, parameters=parameters
    )


def post(
    path: str, about: str, answer: Any, answers: Any, *parameters: Parameter, takes: Any = None
) -> ApiMethod:
    """One that changes the site."""
    return ApiMethod(
        method="POST",
        path=path,
        about=about,
        answer=answer,
        answers=answers,
        parameters=parameters,
        takes=takes,
    )


async def taken(request: Any, kind: type[T]) -> T:
    """The body, which is JSON. Raises Refusal, and NotAllowed where its sender may do nothing any more."""
    data = await read_held_body(request, TAKEN_BYTES_MAX)
    await request.state.still()
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refusal(Refusal.BAD_COMMAND, f"this is not what is to be sent: {error}") from None


def openapi(endpoints: tuple[ApiMethod, ...], version: str) -> dict[str, Any]:
    """The schema, made of the types that answer."""
    takes = [bytes if each.takes is None else each.takes for each in endpoints]
    kinds = [Failed, *(each.answers for each in endpoints), *takes]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    failed, answers, bodies = schemas[0], schemas[1 : 1 + len(endpoints)], schemas[1 + len(endpoints) :]
    paths: dict[str, Any] = {}
    for endpoint, answers_with, body in zip(endpoints, answers, bodies, strict=True):
        told: dict[str, Any] = {
            "summary": endpoint.about,
            "parameters": [
                {
                    "name": name,
                    "in": "query",
                    "description": about,
                    "required": required,
                    "schema": {"type": kind},
                }
                for name, about, required, kind in endpoint.parameters
            ],
            "responses": {
                "200": {"description": "Done.", "content": {"application/json": {"schema": answers_with}}},
                "default": {
                    "description": "Refused.",
                    "content": {"application/json": {"schema": failed}},
                },
            },
        }
        if endpoint.takes is bytes:
            told["requestBody"] = {"content": {"*/*": {}}}
        elif endpoint.takes is not None:
            told["requestBody"] = {"content": {"application/json": {"schema": body}}}
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = told
    return {
        "openapi": "3.1.0",
        "info": {"title": "smqpd", "version": version},
        "security": [{"basic": []}, {"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {scheme: {"type": "http", "scheme": scheme} for scheme in ("basic", "bearer")},
        },
    }
