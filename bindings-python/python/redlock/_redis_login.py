"""Reads the credentials of redis-py's clients, from a password or a provider. No message contains them."""

import codecs
from typing import Any

from redlock.errors import InvalidOption


class FromProvider:
    """A credential provider of redis-py as a function for `credentials=`."""

    def __init__(self, provider: Any, encoding: str) -> None:
        self.provider = provider
        self.encoding = encoding

    def __call__(self) -> Any:
        try:
            answer = self.provider.get_credentials()
        except NotImplementedError:
            # A provider for asyncio only. This function runs on a thread without an event loop.
            import asyncio

            answer = asyncio.run(self.provider.get_credentials_async())
        if not isinstance(answer, (tuple, list)) or len(answer) not in (1, 2):
            return answer
        *user, password = map(self._sent, answer)
        return (user[0] or None, password) if user else password

    def _sent(self, value: Any) -> Any:
        """Encodes a value like redis-py, which also accepts bytes and numbers. Core rejects invalid UTF-8 later."""
        if _is_number(value):
            return str(value)
        if isinstance(value, memoryview):
            return bytes(value)
        if isinstance(value, str) and self.encoding != "utf-8":
            return value.encode(self.encoding)
        return value


def encoding(kwargs: dict[str, Any]) -> str:
    """Returns the encoding in which the client sends text."""
    name = kwargs.get("encoding") or "utf-8"
    try:
        return codecs.lookup(name).name
    except (LookupError, TypeError, ValueError):
        return str(name)


def text_of(name: str, kwargs: dict[str, Any]) -> str:
    """Returns a user or a password as text. redis-py also accepts bytes and numbers."""
    value, coded = kwargs.get(name), kwargs.get("encoding") or "utf-8"
    if not isinstance(value, (str, bytes, bytearray, memoryview)):
        return str(value or "")
    try:
        text = value if isinstance(value, str) else bytes(value).decode()
        if not isinstance(value, str) or value.encode(coded) == value.encode():
            return text
    except (ValueError, LookupError, TypeError):
        # The text of this error contains the password.
        pass
    what = (
        f"the client sends its {name} as {coded}, and redlock would send other bytes, because it uses utf-8"
        if isinstance(value, str)
        else f"the client's {name} is in bytes that are not UTF-8, the encoding that redlock uses"
    )
    raise InvalidOption(
        f"{what}: use ASCII letters, or write the node's URL, Redlock('redis://...'), with the text that "
        "the server expects"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
