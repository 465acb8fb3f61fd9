"""A browser for tests: Debian's Chromium, driven by its chromedriver, without a screen."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Nothing of its own accord may reach the network, or a page would be blamed for it.
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
    """There is no browser here, and why."""


@contextmanager
def opened(folder: Path) -> Iterator[Any]:
    """Start a browser with a profile of its own in `folder`, and end it."""
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
    """Give the page a size in CSS pixels, and say that its reader likes light or dark."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    liked = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": liked})


def settled(browser: Any, condition: str, seconds: float = _LOAD_SECONDS) -> Any:
    """Wait until a JavaScript expression is true; return what it is."""
    from selenium.webdriver.support.ui import WebDriverWait

    wait = WebDriverWait(browser, seconds, poll_frequency=0.2)
    told = f"after {seconds:.0f} s still not: {condition}"
    return wait.until(lambda seen: seen.execute_script(f"return {condition}"), told)


def requests(browser: Any) -> list[str]:
    """Addresses asked for since the last call, but those that hold their own data."""
    messages = (json.loads(e["message"])["message"] for e in browser.get_log("performance"))
    sent = (m["params"] for m in messages if m["method"] == "Network.requestWillBeSent")
    asked = [params["request"]["url"] for params in sent]
    return [url for url in asked if not url.startswith(("data:", "blob:"))]


def problems(browser: Any) -> list[str]:
    """What the console complained of since the last call."""
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] != "INFO"]
