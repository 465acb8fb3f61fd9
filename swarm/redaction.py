"""Find passwords and tokens in URLs, and keep them out of logs and errors."""

import re
import traceback
from collections.abc import Iterable
from urllib.parse import parse_qsl, quote, unquote

_KEY = (
    r"(?:[\w-]*(?:password|passwd|pwd|token|secret|credential|signature"
    r"|api_?key|access_?key|account_?key)[\w-]*|sig)"
)
# Parts of words would be masked too: the user `u` of https://u@host in every "refused".
_SHORT = 5
_PLACEHOLDER = r"\$\{\w+\}"
# A port is not a password: http://host:5000/user@place.
_NOT_A_PORT = r"(?!\d{1,5}(?:[/?#]|$))"
_WRITTEN_OUT = re.compile(
    rf"://[^/?#\s:@]*:(?!{_PLACEHOLDER}@){_NOT_A_PORT}\S*@"
    rf"|[?&;]{_KEY}=(?!{_PLACEHOLDER}(?:[&;\s]|$))[^&;\s]",
    re.IGNORECASE,
)


def redact(text: str) -> str:
    """Return `text` with the passwords and tokens of every URL in it replaced by ``***``."""
    text = re.sub(r"(?i)(https?://)[^\s/?#]*@", r"\1***@", text)
    text = re.sub(rf"(://[^:/?#@\s]*):{_NOT_A_PORT}[^\s]*@", r"\1:***@", text)
    return re.sub(rf"(?i)([?&;]{_KEY}=)[^&;\s'\"]*", r"\1***", text)


def holds_secret(text: str) -> bool:
    """Return whether a URL contains a password or token other than a ``${NAME}`` placeholder."""
    return _WRITTEN_OUT.search(text) is not None


def secrets_of(url: str) -> list[str]:
    """Return every password and token of a URL, as written and as a driver would quote it."""
    secrets = []
    start = url.partition("://")[2]
    if user := re.match(r"([^/?#:@]*)(?::(.*))?@", start):
        # Without a password, the user name is the token, as in https://TOKEN@host.
        secrets += [user[1] if user[2] is None else user[2]]
    query = url.partition("?")[2].replace(";", "&")
    secrets += [value for key, value in parse_qsl(query) if re.fullmatch(_KEY, key, re.IGNORECASE)]
    forms = {
        form for each in secrets for form in (each, unquote(each), quote(unquote(each), safe=""))
    }
    return sorted(form for form in forms if form)


def scrub(message: str, secrets: Iterable[str]) -> str:
    """Replace every secret in a message by ``***``, a short one only where it is a whole word."""
    for secret in sorted({s for s in secrets if s}, key=len, reverse=True):
        pattern = re.escape(secret)
        if len(secret) < _SHORT:
            pattern = rf"(?<!\w){pattern}(?!\w)"
        message = re.sub(pattern, "***", message)
    return message


def cause_without_secrets(error: BaseException, secrets: Iterable[str]) -> BaseException | None:
    """Return `error` as the cause of another exception, or None if its traceback has a secret."""
    text = "".join(traceback.format_exception(error))
    return None if any(secret in text for secret in secrets) else error
