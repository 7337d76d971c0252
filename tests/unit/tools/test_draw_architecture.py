"""The drawn architecture is up to date and names packages that exist."""

from __future__ import annotations

from xml.etree import ElementTree

from kraft._tools.draw_architecture import HEIGHT, TARGET, WIDTH, drawing, missing_packages

SVG = "{http://www.w3.org/2000/svg}"


def test_the_committed_drawing_equals_the_output_of_the_script() -> None:
    assert TARGET.read_text(encoding="utf-8") == drawing(), "run python -m kraft._tools.draw_architecture"


def test_every_drawn_package_exists() -> None:
    assert missing_packages() == []


def test_no_box_is_outside_the_canvas_or_covers_another() -> None:
    boxes = [
        tuple(int(box.get(side, "0")) for side in ("x", "y", "width", "height"))
        for box in ElementTree.fromstring(drawing()).iter(f"{SVG}rect")
        if box.get("class") != "frame"
    ]
    assert len(boxes) > 10
    for x, y, width, height in boxes:
        assert x >= 0
        assert x + width <= WIDTH
        assert y >= 0
        assert y + height <= HEIGHT
    for number, (x, y, width, height) in enumerate(boxes):
        for other_x, other_y, other_width, other_height in boxes[number + 1 :]:
            apart = x + width <= other_x or other_x + other_width <= x
            assert apart or y + height <= other_y or other_y + other_height <= y
