"""The explore tab in a real headless Chromium: type, choose a head, switch the mask off, take a token, generate."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests import browser
from tests.browser import Tab
from tests.labs.test_labs import solved
from tests.watched import Session
from tests.whole import SPOKEN

pytestmark = [pytest.mark.thorough, browser.needed]

READY = "!!document.querySelector('#explore')?.dataset.milliseconds"
TEXTS = {
    "en": ("Theo put the red kite in the tent. They looked in the", " tent"),
    "ko": ("소라는 빨간 연을 항아리에 넣었습니다. 두 사람이", " 항아리를"),
}
TYPE = """(() => {{
  const text = document.querySelector('#look-text');
  delete document.querySelector('#explore').dataset.milliseconds;
  text.value = {text!r};
  text.dispatchEvent(new Event('input'));
}})()"""
LIKELIEST = "document.querySelector('.look-row .look-name').textContent"
SWITCH = "document.querySelectorAll('.look-changes button')[{place}].click()"
DRAWN = "[...document.querySelectorAll('.look-maps canvas')].map((one) => one.toDataURL())"
ZOOMS = "[...document.querySelectorAll('.look-title button')].map((one) => one.disabled)"


@pytest.fixture(scope="module", params=SPOKEN)
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Tab]]:
    """The course's page at its tab, all steps but step 12 solved."""
    folder = tmp_path_factory.mktemp("explore")
    exercises = solved(folder / "exercises", *range(1, 12))
    place = ("--page", "--lang", request.param)
    with Session(exercises, "12", *place, terminal=False, BROWSER="true", EDITOR="code") as session:
        found = re.search(r"http://127\.0\.0\.1:\d+/enter\?token=[\w-]+", session.until("127.0.0.1"))
        assert found is not None
        with Tab(f"{found[0]}&place=/explore", folder / "profile") as tab:
            tab.until(READY)
            yield request.param, tab


def typed(page: tuple[str, Tab]) -> Tab:
    """The tab with the text of its language read."""
    spoken, tab = page
    tab.value(TYPE.format(text=TEXTS[spoken][0]))
    tab.until(READY)
    return tab


def test_a_typed_text_is_read_and_a_token_taken(page: tuple[str, Tab]) -> None:
    tab = typed(page)
    spoken, wanted = page[0], TEXTS[page[0]][1]
    assert tab.value("document.querySelectorAll('.look-tokens span').length") > 5
    assert tab.value(LIKELIEST) == wanted.replace(" ", "␣")
    tab.value("document.querySelector('.look-row').click()")
    tab.until(f"document.querySelector('#look-text').value === {TEXTS[spoken][0] + wanted!r}")
    tab.until("location.search.includes('text=')")


def test_a_head_is_chosen_by_mouse_and_by_keyboard(page: tuple[str, Tab]) -> None:
    tab = typed(page)
    before = tab.value(DRAWN)
    tab.value("document.querySelectorAll('.look-heads button')[0].click()")
    tab.until(f"JSON.stringify({DRAWN}) !== JSON.stringify({before})")
    tab.value("document.querySelectorAll('.look-heads button')[0].focus()")
    tab.press("ArrowRight")
    tab.until("document.activeElement.textContent === '0.1' && document.activeElement.ariaPressed === 'true'")
    tab.value("document.querySelector('.look-tokens').focus()")
    for _key in range(3):
        tab.press("ArrowLeft")
    tab.until("document.querySelectorAll('.look-strip path').length > 0")
    tab.value("document.querySelector('.look-maps canvas').focus()")
    tab.press("ArrowUp")
    tab.press("+")
    tab.until("document.querySelector('.look-told').innerText.includes('→')")


def test_the_mask_switched_off_is_shown_beside(page: tuple[str, Tab]) -> None:
    tab = typed(page)
    tab.value(SWITCH.format(place=0))
    tab.until("document.querySelectorAll('.look-maps canvas').length === 2")
    with_mask, without = tab.value(DRAWN)
    assert with_mask != without
    assert tab.value("document.querySelectorAll('.look-row:first-child .look-bar').length") == 2
    tab.value(SWITCH.format(place=0))
    tab.until("document.querySelectorAll('.look-maps canvas').length === 1")


def test_a_silenced_head_is_told_and_the_text_grows(page: tuple[str, Tab]) -> None:
    tab = typed(page)
    tab.value("document.querySelector('.look-all > button').click()")
    tab.until("document.querySelectorAll('.look-heads b').length === 16")
    length = tab.value("document.querySelector('#look-text').value.length")
    tab.value("document.querySelector('.look-typed button').click()")
    tab.until("document.querySelector('.look-written').innerText.length > 8")
    tab.value("document.querySelector('.look-typed button').click()")
    tab.until(f"document.querySelector('#look-text').value.length > {length}")
    assert len([one for one in tab.requests if one.endswith("/data/explore/write")]) == 1  # one stream, not one a token
    assert not any(one.endswith("/data/explore/next") for one in tab.requests)


def test_the_path_of_a_token_leads_to_its_steps(page: tuple[str, Tab]) -> None:
    tab = typed(page)
    tab.until("document.querySelectorAll('.flow-box').length === 19")
    links = tab.value("[...document.querySelectorAll('.flow-box a')].map((one) => one.getAttribute('href'))")
    assert {"/step/1", "/step/4", "/step/9", "/step/12"} <= set(links)
    files = {link.rpartition("/")[2] for link in links if link.startswith("vscode://file/")}
    assert {"step01_scores.py:1", "step09_fused_qkv.py:1"} <= files
    before = tab.value("document.querySelector('.look-flow h2').textContent")
    tab.value("[...document.querySelectorAll('button.flow-part')].find((one) => one.ariaPressed === 'false').click()")
    tab.until(f"document.querySelector('.look-flow h2').textContent !== {before!r}")
    assert tab.value("Number(document.querySelector('#explore').dataset.flowed)") < 2000


def test_a_cell_opens_its_sum(page: tuple[str, Tab]) -> None:
    """Of a map by mouse and by keyboard, of a strip of the flow: below it, with the tokens that it is about."""
    tab = typed(page)
    tab.until("document.querySelectorAll('.flow-box').length === 19")
    said = "document.querySelector('.look-one .flow-sum').innerText"
    at = "{clientX: box.left + box.width * 0.5, clientY: box.top + box.height * 0.9, bubbles: true}"
    canvas = "const canvas = document.querySelector('.look-maps canvas'), box = canvas.getBoundingClientRect();"
    tab.value(f"(() => {{ {canvas} canvas.dispatchEvent(new MouseEvent('click', {at})); }})()")
    tab.until(f"{said}.includes('exp(') && {said}.includes('→') && {said}.includes('·')")
    tab.value("document.querySelectorAll('.look-heads button')[0].click()")
    tab.until(f"!{said}.includes('exp(')")
    tab.value("document.querySelector('.look-maps canvas').focus()")
    tab.press("Enter")
    tab.until(f"{said}.includes('exp(')")
    for strip, sign in ((0, "·"), (1, "exp("), (2, "·")):
        tab.value(f"document.querySelectorAll('.flow-box canvas[tabindex]')[{strip}].focus()")
        tab.press("ArrowRight")
        tab.until(f"document.querySelector('.flow .flow-sum')?.innerText.includes({sign!r})")
    assert tab.value("document.querySelectorAll('.flow .flow-sum').length") == 1
    painted = "document.querySelector('.flow-box canvas').toDataURL()"
    light, both = (
        tab.value(painted),
        tab.value("[...document.querySelectorAll('.flow-sum')].map((one) => one.innerText)"),
    )
    tab.value("document.documentElement.dataset.theme = 'dark'")
    tab.until(f"{painted} !== {light!r}")
    assert tab.value("[...document.querySelectorAll('.flow-sum')].map((one) => one.innerText)") == both
    tab.value("delete document.documentElement.dataset.theme")


def test_no_old_map_is_left_for_a_text_that_can_not_be_read(page: tuple[str, Tab]) -> None:
    tab = typed(page)
    shown = "getComputedStyle(document.querySelector('.look-body')).display !== 'none'"
    texts = "[...document.querySelectorAll('.look-offers[open] button')]"
    assert tab.value(shown)
    for unreadable in ("", "€€€"):
        tab.value(TYPE.format(text=unreadable))
        tab.until(f"!({shown}) && {texts}.length >= 4")  # three texts, and at least one more model
    tab.value(f"{texts}[0].click()")
    tab.until(f"{shown} && {READY}")


def test_positions_switched_off_say_what_is_left_of_order(page: tuple[str, Tab]) -> None:
    tab = typed(page)
    tab.value(SWITCH.format(place=1))
    tab.until("document.querySelector('.look a[href=\"/lab/positions\"]').checkVisibility()")
    tab.value(SWITCH.format(place=1))
    tab.until("!document.querySelector('.look a[href=\"/lab/positions\"]').checkVisibility()")


def test_a_head_is_kept_as_one_file(page: tuple[str, Tab]) -> None:
    """The file that is offered refers to nothing outside itself."""
    tab = typed(page)
    tab.value(
        "window.kept = null;"
        "URL.createObjectURL = (blob) => { blob.text().then((text) => { window.kept = text; }); return '#'; }"
    )
    tab.value("document.querySelector('.look-one > button').click()")
    tab.until("window.kept")
    kept = tab.value("window.kept")
    assert "data:image/png" in kept and "<script" not in kept and "http" not in kept
    assert TEXTS[page[0]][0] in kept


def test_a_long_map_is_enlarged_and_moved(page: tuple[str, Tab]) -> None:
    """By button, by key, by Ctrl and the wheel; dragged with the mouse."""
    spoken, tab = page
    closer = "document.querySelectorAll('.look-title button')[1].click()"
    tab.until("document.querySelector('.look-maps canvas')")
    tab.value(closer)  # however near one looked at a text before, another one is seen whole
    tab.value(TYPE.format(text=(TEXTS[spoken][0] + ". ") * 60))
    tab.until("document.querySelectorAll('.look-tokens span').length > 90")  # the text before it was ready, too
    tab.until(READY)
    tokens = tab.value("document.querySelectorAll('.look-tokens span').length")
    assert tab.value(ZOOMS) == [True, False]
    seen = [tab.value(DRAWN)]

    def changed() -> None:
        tab.until(f"JSON.stringify({DRAWN}) !== JSON.stringify({seen[-1]})")
        seen.append(tab.value(DRAWN))

    tab.value(closer)
    changed()
    assert str(tokens) in tab.value("document.querySelector('.look-title span').textContent")
    tab.value("document.querySelector('.look-maps canvas').focus()")
    tab.press("+")
    changed()
    wheel = "{deltaY: -100, ctrlKey: true, clientX: box.left + 200, clientY: box.top + 200, cancelable: true}"
    box = "const canvas = document.querySelector('.look-maps canvas'), box = canvas.getBoundingClientRect();"
    assert tab.value(f"(() => {{ {box} return canvas.dispatchEvent(new WheelEvent('wheel', {wheel})); }})()") is False
    changed()
    drag = "{buttons: 1, pointerType: 'mouse', movementX: 60, movementY: 60}"
    tab.value(f"(() => {{ {box} canvas.dispatchEvent(new PointerEvent('pointermove', {drag})); }})()")
    changed()
    for _press in range(4):
        tab.value(closer)
    assert tab.value(ZOOMS) == [False, True]


def test_it_says_whose_code_answers(page: tuple[str, Tab]) -> None:
    """Step 12 is a stub, so that the reference is used for it."""
    tab = typed(page)
    tab.until("document.querySelector('.look-whose summary').innerText.includes('11')")
    assert "12" in tab.value("document.querySelectorAll('.look-whose p')[1].textContent")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1400])
def test_nothing_is_wider_than_the_page_and_nothing_complains(page: tuple[str, Tab], width: int, dark: bool) -> None:
    tab = typed(page)
    tab.look(width, dark=dark)
    tab.until(f"innerWidth === {width}")
    assert tab.value("document.documentElement.scrollWidth") <= width
    assert tab.value("document.querySelector('.look').scrollWidth <= document.querySelector('.look').clientWidth")
    assert tab.complaints == []
    assert all(address.startswith(("http://127.0.0.1", "data:")) for address in tab.requests)
