"""The gradient of every parameter as a chart."""

from __future__ import annotations

from xml.etree import ElementTree

from gradviz.capture.capture import Capture, Program
from gradviz.rendering.svg.flow_bars import FlowBarsRenderer
from tests.unit.analysis.test_gradient_origins import FINE, ZERO, with_flow

SVG = "{http://www.w3.org/2000/svg}"


def test_a_parameter_has_a_bar_or_the_reason_why_it_has_none() -> None:
    flow = {"Sum": (FINE, [FINE]), "Mul": (FINE, [FINE, ZERO]), "w": (FINE, []), "v": (ZERO, [])}
    graph = with_flow("w -> Mul -> Sum -> loss; v -> Mul", flow)
    renderer = FlowBarsRenderer("light")

    svg = ElementTree.fromstring(renderer.render(Capture(Program("train.py"), (graph,)), graph))

    assert len([rect for rect in svg.iter(f"{SVG}rect") if rect.get("class") == "bar"]) == 1
    assert "all zero" in [text.text for text in svg.iter(f"{SVG}text")]
    assert renderer.png(Capture(Program("train.py"), (graph,)), graph).startswith(b"\x89PNG")
