"""Find passwords and tokens in URLs, and keep them out of logs and errors."""

import re
import traceback
from collections.abc import Iterable
from urllib.parse import parse_qsl, quote, unquote

_KEY = (
    r"(?:[\w-]*(?:password|passwd|pwd|token|secret|credential|signature"
    r"|api_?key|access_?key|account_?key)[\w-]*|sig)"
)
# Shorter secrets are replaced as whole words: the user `u` of https://u@host is in every "refused".
_MIN_LENGTH_WITHIN_WORDS = 5
_PLACEHOLDER = r"\$\{\w+\}"
# A port is not a password: http://host:5000/user@place.
_NOT_A_PORT = r"(?!\d{1,5}(?:[/?#]|$))"
_WRITTEN_OUT = re.compile(
    rf"://[^/?#\s:@]*:(?!{_PLACEHOLDER}@){_NOT_A_PORT}\S*@"
    rf"|[?&;]{_KEY}=(?!{_PLACEHOLDER}(?:[&;\s]|$))[^&;\s]",
    re.IGNORECASE,
)


def redact(text: str) -> str:
    """Replace the passwords and tokens of every URL in a text by ``***``."""
    text = re.sub(r"(?i)(https?://)[^\s/?#]*@", r"\1***@", text)
    text = re.sub(rf"(://[^:/?#@\s]*):{_NOT_A_PORT}[^\s]*@", r"\1:***@", text)
    return re.sub(rf"(?i)([?&;]{_KEY}=)[^&;\s'\"]*", r"\1***", text)


def holds_secret(text: str) -> bool:
    """Whether a URL contains a password or token other than a ``${NAME}`` placeholder."""
    return _WRITTEN_OUT.search(text) is not None


def secrets_of(url: str) -> list[str]:
    """List every password and token of a URL, as written and as a driver would quote it."""
    secrets = []
    address = url.partition("://")[2]
    if login := re.match(r"([^/?#:@]*)(?::(.*))?@", address):
        # A user name without a password is a token, as in https://TOKEN@host.
        secrets.append(login[1] if login[2] is None else login[2])
    query = url.partition("?")[2].replace(";", "&")
    secrets += [value for key, value in parse_qsl(query) if re.fullmatch(_KEY, key, re.IGNORECASE)]
    spellings = set(secrets)
    spellings.update(unquote(secret) for secret in secrets)
    spellings.update(quote(unquote(secret), safe="") for secret in secrets)
    return sorted(spelling for spelling in spellings if spelling)


def scrub(message: str, secrets: Iterable[str]) -> str:
    """Replace every secret in a message by ``***``, a short one only where it is a whole word."""
    for secret in sorted({secret for secret in secrets if secret}, key=len, reverse=True):
        pattern = re.escape(secret)
        if len(secret) < _MIN_LENGTH_WITHIN_WORDS:
            pattern = rf"(?<!\w){pattern}(?!\w)"
        message = re.sub(pattern, "***", message)
    return message


def cause_without_secrets(error: BaseException, secrets: Iterable[str]) -> BaseException | None:
    """Take `error` as the cause of another exception, or None if its traceback has a secret."""
    text = "".join(traceback.format_exception(error))
    return None if any(secret in text for secret in secrets) else error
