"""The page, in Chromium.

HOLDFAST_SCREENSHOTS=1 writes the pictures of docs/serve.md again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from gateway_client import HOSTILE
from playwright.sync_api import Browser, Page, expect, sync_playwright

IMAGES = Path(__file__).parents[2] / "docs" / "images"
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync"
)
SIZES = [(360, 740), (1280, 800)]
PICTURES = {(360, "dark"), (1280, "light")}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium")
    assert path, "the tests of the page need Chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS.split())
        yield browser
        browser.close()


class Visit:
    """A page, its requests, and its errors."""

    def __init__(self, chromium: Browser, url: str, size: tuple[int, int], **options: Any) -> None:
        viewport: Any = {"width": size[0], "height": size[1]}
        self.context = chromium.new_context(viewport=viewport, **options)
        self.page: Page = self.context.new_page()
        self.asked: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.url = url

    def open(self) -> Page:
        self.page.goto(self.url)
        expect(self.page.locator("#updated")).to_contain_text("as of")
        return self.page


@pytest.fixture
def visit(chromium: Browser, serve: Any) -> Iterator[Any]:
    """Starts a gateway of roots for a visit, whose `open` loads the page.

    At the end no visit may have an error, or a request to another address.
    """
    visits: list[Visit] = []

    def start(
        roots: Any,
        size: tuple[int, int] = SIZES[1],
        gateway: dict[str, Any] | None = None,
        **options: Any,
    ) -> Visit:
        client = serve(roots, **(gateway or {}))
        visits.append(Visit(chromium, client.url, size, **options))
        return visits[-1]

    yield start
    for one in visits:
        one.context.close()
        assert one.complaints == []
        strangers = [url for url in one.asked if not url.startswith((one.url, "data:"))]
        assert strangers == [], "a request left the gateway"


def look_up(page: Page, key: str) -> None:
    page.get_by_label("product").fill(key)
    page.get_by_role("button", name="Look up").click()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_the_page_fits_and_is_accessible(visit, shop: str, size: tuple[int, int], scheme: str):
    page = visit(shop, size, color_scheme=scheme).open()
    look_up(page, "tea")
    expect(page.locator("svg rect")).to_have_count(4)
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    if os.environ.get("HOLDFAST_SCREENSHOTS") and (size[0], scheme) in PICTURES:
        IMAGES.mkdir(exist_ok=True)
        page.locator("#address").evaluate("element => element.textContent = '/var/lib/shop'")
        page.screenshot(path=IMAGES / f"page-{size[0]}-{scheme}.png", full_page=True)


def test_partitions_and_their_problems_are_shown(visit, shop: str):
    opened = visit(shop)
    page = opened.open()
    rows = page.locator(".partitions tbody tr")
    expect(rows).to_have_count(2)
    expect(page.locator("#summary")).to_contain_text("2 of 2")
    expect(page.locator("#operators")).to_contain_text("materialize")
    expect(rows.first).to_contain_text("in order")
    behind, other = page.request.get(f"{opened.url}/v1/partitions").json()
    behind["condition"] = {
        "name": "behind",
        "severity": "warn",
        "text": "3 epochs behind",
        "epochs_behind": 3,
    }
    behind["figures"]["epoch"] = -3
    behind["figures"]["unused_rows"]["late"] = 1234

    def answer(partitions: list[Any]) -> None:
        headers = {"Holdfast-Epoch": "0"}
        page.route("**/partitions", lambda route: route.fulfill(json=partitions, headers=headers))
        page.get_by_role("button", name="Refresh").click()

    answer([behind, other])
    expect(rows.first.locator("td.warn").first).to_have_text("3 epochs behind")
    expect(rows.first).to_contain_text("3)")
    expect(page.locator("#summary")).to_contain_text("1,234")
    unserved = {"name": "unserved", "severity": "bad", "text": "no host answers"}
    nothing = {"host": None, "figures": None, "condition": {**unserved, "epochs_behind": 0}}
    answer([{**behind, **nothing}, {**other, **nothing}])
    expect(rows.first).to_contain_text("no host answers")
    expect(page.locator("#summary")).to_contain_text("0 of 2")


def test_a_key_is_looked_up_by_keyboard(visit, shop: str):
    page = visit(shop).open()
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the look-up")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Table", exact=True)).to_be_focused()
    page.keyboard.press("Tab")
    field = page.get_by_label("product")
    expect(field).to_be_focused()
    assert field.evaluate("element => getComputedStyle(element).outlineStyle") == "solid"
    page.keyboard.type("tea")
    page.keyboard.press("Enter")
    expect(page.locator("#found")).to_have_text("4 rows of epoch 0")
    expect(page.locator("svg title").nth(1)).to_have_text(
        "2026-03-02 14:00:00Z to 2026-03-05 08:00:00Z: price 3.5, why new harvest"
    )


def test_hostile_values_stay_text(visit, shop: str):
    page = visit(shop).open()
    look_up(page, HOSTILE)
    expect(page.locator("#result td").filter(has_text=HOSTILE)).to_have_count(2)
    page.get_by_role("button", name="First 20 rows").click()
    expect(page.locator("#result tbody tr")).to_have_count(3)
    assert page.locator("#result img").count() == 0
    assert page.title() == "Holdfast"


def test_an_absent_key_and_an_error_are_shown(visit, shop: str, typed: str):
    opened = visit({"a": shop, "b": typed})
    page = opened.open()
    look_up(page, "milk")
    expect(page.locator("#found")).to_contain_text("no row of this key")
    page.get_by_label("Root").select_option("b")
    expect(page.locator("#key input")).to_have_count(6)
    page.get_by_role("button", name="First 20 rows").click()
    # JavaScript's numbers are exact for integers up to 9007199254740991 only.
    expect(page.locator("#result")).to_contain_text("9007199254740993")
    page.locator("#key-1").fill("x")
    page.get_by_role("button", name="Look up").click()
    expect(page.locator("#found")).to_contain_text("Not read")
    assert len(opened.complaints) == 1
    assert "400" in opened.complaints.pop()


def test_windows_of_a_key_are_on_a_time_line(visit, hourly: str):
    page = visit(hourly).open()
    page.get_by_label("customer").fill("ann")
    page.get_by_role("button", name="Look up").click()
    expect(page.locator("svg rect")).to_have_count(2)


def test_the_token_is_accepted_as_the_password(visit, shop: str, tmp_path: Path):
    token = "0123456789abcdef0123456789abcdef"
    (tmp_path / "token").write_text(token)
    credentials = {"username": "me", "password": token}
    gateway = {"token_file": tmp_path / "token"}
    opened = visit(shop, gateway=gateway, http_credentials=credentials)
    expect(opened.open().locator(".partitions tbody tr")).to_have_count(2)
    opened.complaints.clear()


def test_without_javascript_there_are_links(visit, shop: str):
    opened = visit(shop, java_script_enabled=False)
    opened.page.goto(opened.url)
    for path in ("/v1/roots", "/v1/tables", "/v1/hosts", "/metrics", "/openapi.json"):
        expect(opened.page.locator(f'main a[href="{path}"]')).to_be_visible()


def test_the_page_may_run_only_its_own_files(serve, shop: str):
    client = serve(shop)
    for path, kind in (("/", "html"), ("/page.js", "javascript"), ("/page.css", "css")):
        answer = client.get(path)
        assert answer.headers["Content-Type"] == f"text/{kind}; charset=utf-8"
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'; script-src 'self'" in policy
        assert "unsafe" not in policy
