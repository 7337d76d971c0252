"""The console in a browser."""

from __future__ import annotations

import json

from tests.integration.browser import Browser


def show(tab: Browser, admin: str, page: str, expected: str) -> None:
    name = page.partition("?")[0]
    tab.open(f"{admin}/" if page == "overview" else f"{admin}/ui/{page}")
    tab.until(f"document.querySelector('#page[data-ready={name}]')")
    tab.until(f"document.body.innerText.toLowerCase().includes({json.dumps(expected.lower())})")


def click(tab: Browser, text: str) -> None:
    wanted = f"[...document.querySelectorAll('button')].reverse().find(b => b.innerText === {json.dumps(text)})"
    tab.until(wanted)
    tab.run(f"{wanted}.click()")


def type_into(tab: Browser, selector: str, text: str) -> None:
    tab.until(f"document.querySelector({json.dumps(selector)})")
    tab.run(f"document.querySelector({json.dumps(selector)}).focus()")
    tab.call("Input.insertText", text=text)
