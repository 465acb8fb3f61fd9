"""A browser for tests: Debian's Chromium without a screen, driven by chromedriver."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# The browser itself may not use the network, or a page would be blamed for it.
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
_LOAD_SECONDS = 60


class NoBrowser(Exception):
    """There is no browser here; the message says why."""


@contextmanager
def opened(folder: Path) -> Iterator[Any]:
    """Yield a browser with a new profile in `folder`, and end it."""
    try:
        from selenium import webdriver
    except ModuleNotFoundError:
        raise NoBrowser("selenium is not installed") from None
    binary = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if not binary or not driver:
        raise NoBrowser("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*_FLAGS, f"--user-data-dir={folder}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options, webdriver.ChromeService(driver))
    try:
        browser.set_page_load_timeout(_LOAD_SECONDS)
        yield browser
    finally:
        browser.quit()


def resized(browser: Any, width: int, height: int = 1000, scheme: str = "light") -> None:
    """Set the size of the page in CSS pixels, and the colour scheme that its reader prefers."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def settled(browser: Any, condition: str, seconds: float = _LOAD_SECONDS) -> Any:
    """Wait until a JavaScript expression is true, and return its value."""
    from selenium.webdriver.support.ui import WebDriverWait

    wait = WebDriverWait(browser, seconds, poll_frequency=0.2)
    message = f"after {seconds:.0f} s still not: {condition}"
    return wait.until(lambda seen: seen.execute_script(f"return {condition}"), message)


def requests(browser: Any) -> list[str]:
    """Return the addresses requested since the last call, without data URLs."""
    entries = browser.get_log("performance")
    messages = [json.loads(entry["message"])["message"] for entry in entries]
    urls = [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
    return [url for url in urls if not url.startswith(("data:", "blob:"))]


def problems(browser: Any) -> list[str]:
    """Return the messages of the console since the last call, but for information."""
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] != "INFO"]
