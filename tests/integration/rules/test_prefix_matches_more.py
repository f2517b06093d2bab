"""Layers that are frozen, or trained, because the beginning of a name matches their number as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

MODEL = """
class Encoder(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.embed = nn.Linear(4, 4)
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(depth))
    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = x + torch.tanh(block(x))
        return x
class Tagger(nn.Module):
    def __init__(self, depth=12):
        super().__init__()
        self.encoder, self.head = Encoder(depth), nn.Linear(4, 1)
    def forward(self, x):
        return self.head(self.encoder(x))
model = Tagger()
"""
STEPS = """
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.01)
for step in range(4):
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    F.mse_loss(model(x), x[:, :1]).backward()
    optimizer.step()
"""
COUNTED = """
def freeze_bottom(encoder, count):
    prefixes = ("embed",) + tuple(f"blocks.{i}" for i in range(count))  # HERE
    for name, p in encoder.named_parameters():
        p.requires_grad_(not name.startswith(prefixes))
freeze_bottom(model.encoder, count=10)
"""
WRITTEN = """
for name, p in model.named_parameters():
    if "embed" in name or "blocks.0" in name or "blocks.1" in name:  # HERE
        p.requires_grad = False
"""
UNFROZEN = """
model.requires_grad_(False)
for name, p in model.named_parameters():
    if name.startswith(("head", "encoder.blocks.1")):  # HERE
        p.requires_grad = True
"""
UNKNOWN = """
import json
frozen = json.loads("[0, 1, 2]")
for name, p in model.encoder.named_parameters():
    if any(name.startswith(f"blocks.{i}") for i in frozen):  # HERE
        p.requires_grad = False
"""
IMPORTED = """
from string import digits as frozen
frozen = tuple(frozen[:0]) + ("blocks.0", "blocks.1")  # HERE
for name, p in model.encoder.named_parameters():
    if name.startswith(frozen):
        p.requires_grad = False
"""
CONFIGURED = """
from dataclasses import dataclass, field
@dataclass
class Config:
    frozen: tuple = ("embed", "blocks.0", "blocks.1")  # HERE
    depth: int = 12
def freeze(encoder, prefixes):
    for name, p in encoder.named_parameters():
        if name.startswith(prefixes):
            p.requires_grad_(False)
freeze(model.encoder, Config(depth=12).frozen)
"""
OPTION = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--freeze-below", default="blocks.1")  # HERE
args = parser.parse_args([])
for name, p in model.named_parameters():
    if args.freeze_below in name:
        p.requires_grad_(False)
"""
ENTRY = """
config = {"frozen": ["blocks.0", "blocks.1"]}  # HERE
for name, p in model.encoder.named_parameters():
    if any(name.startswith(each) for each in config["frozen"]):
        p.requires_grad_(False)
"""
HELPER = """
def is_frozen(name, prefixes):
    return name.startswith(tuple(prefixes))
config = {"frozen": ["blocks.0", "blocks.1"]}  # HERE
for name, p in model.encoder.named_parameters():
    p.requires_grad_(not is_frozen(name, config["frozen"]))
"""
FAULTY = {
    "a function that is asked about each name": HELPER,
    "a field of a configuration": CONFIGURED,
    "an option": OPTION,
    "an entry of a dict": ENTRY,
    "a name that is put together with itself": IMPORTED,
    "counted": COUNTED,
    "written": WRITTEN,
    "unfrozen": UNFROZEN,
    "numbers that are not known": UNKNOWN,
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_number_at_the_end_matches_longer_ones(name: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + MODEL + FAULTY[name] + STEPS, "prefix_matches_more", tmp_path)


RIGHT = {
    "a dot behind the number": COUNTED.replace('{i}"', '{i}."'),
    "all blocks": COUNTED.replace("count=10", "count=12"),
    "a function that is asked, with dots": HELPER.replace('blocks.1"', 'blocks.1."'),
    "few blocks": COUNTED.replace("count=10", "count=2"),
    "the last two as well": WRITTEN.replace('"blocks.1" in', '"blocks.11" in'),
    "numbers of which no layer has two digits": WRITTEN,
}


@pytest.mark.parametrize("name", RIGHT)
def test_names_that_match_what_is_meant_are_left_alone(name: str, tmp_path: Path) -> None:
    is_short = name in ("few blocks", "numbers of which no layer has two digits")
    model = MODEL.replace("depth=12", "depth=10") if is_short else MODEL
    assert alarms(HEAD + model + RIGHT[name] + STEPS, tmp_path) == []


TOWERS = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.{first}_embed, self.{first}_layer = nn.Linear(4, 4), nn.Linear(4, 4)
        self.{head}, self.family = nn.Linear(4, 1), nn.Linear(4, 1)
    def forward(self, x):
        h = torch.tanh(self.{first}_layer(self.{first}_embed(x)))
        return self.{head}(h) + self.family(h)
model = Model()
def freeze(model, keyword):
    for name, p in model.named_parameters():
        if keyword in name:
            p.requires_grad_(False)
freeze(model, "enc")  # HERE
"""


def test_a_text_in_the_middle_of_a_word_is_told(tmp_path: Path) -> None:
    script = HEAD + TOWERS.format(first="enc", head="sequence_head") + STEPS
    assert_first_alarm(script, "prefix_matches_more", tmp_path)
    assert 'look for "enc_"' in (alarms(script, tmp_path)[0].fix or "")


@pytest.mark.parametrize(
    ("first", "head"),
    [("enc", "preenc"), ("enc", "head"), ("sequence", "head"), ("enc", "encoders_head"), ("enc", "preencs_head")],
)
def test_texts_that_words_begin_or_end_with_are_left_alone(tmp_path: Path, first: str, head: str) -> None:
    found = alarms(HEAD + TOWERS.format(first=first, head=head) + STEPS, tmp_path)
    assert not [each for each in found if each.cause == "prefix_matches_more"]


DOMAINS = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.encoder = nn.Linear(4, 4), nn.Linear(4, 4)
        self.{new}, self.head = nn.Linear(4, 4), nn.Linear(4, 1)
    def forward(self, x):
        return self.head(torch.tanh(self.encoder(self.embed(x) + self.{new}(x))))
model = Model()
def freeze(model, prefixes):
    for name, p in model.named_parameters():
        if name.startswith(tuple(prefixes)):
            p.requires_grad_(False)
freeze(model, [{texts}])  # HERE
"""


def test_the_name_of_a_module_with_which_another_name_begins_is_told(tmp_path: Path) -> None:
    script = HEAD + DOMAINS.format(new="embed_domain", texts='"embed", "encoder"') + STEPS
    assert_first_alarm(script, "prefix_matches_more", tmp_path)
    assert_first_alarm(script.replace('"embed", "encoder"', '"encoder.", "embed"'), "prefix_matches_more", tmp_path)


def test_another_word_that_begins_with_the_name_of_a_module_is_told(tmp_path: Path) -> None:
    script = DOMAINS.replace("embed", "con").format(new="context", texts='"con"')
    assert_first_alarm(HEAD + script + STEPS, "prefix_matches_more", tmp_path)


@pytest.mark.parametrize(
    ("new", "texts"),
    [
        ("domain", '"embed", "encoder"'),
        ("embed_domain", '"embed."'),
        ("embed_domain", '"embed.", "encoder"'),
        ("embed_domain", '"embed", "encoder", "embed_domain"'),
        ("embed_domain", '"embed"'),
        ("embeds", '"embed"'),
        ("embedder", '"embed"'),
        ("embed2", '"embed"'),
        ("encoder_2", '"encoder"'),
    ],
)
def test_names_of_modules_that_are_meant_are_left_alone(new: str, texts: str, tmp_path: Path) -> None:
    found = alarms(HEAD + DOMAINS.format(new=new, texts=texts) + STEPS, tmp_path)
    assert not [each for each in found if each.cause == "prefix_matches_more"]


PARTS = """
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn, self.{word}, self.out = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
    def forward(self, x):
        return torch.tanh(self.attn(x) + self.{word}(x) + self.out(x))
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Sequential({below}), nn.Sequential(Layer(), Layer())
        self.head = nn.Linear(4, 1)
    def forward(self, x):
        return self.head(self.decoder(self.encoder(x)))
model = Model()
def freeze(model, parts):
    for name, p in model.named_parameters():
        if any(part in name for part in parts):  # HERE
            p.requires_grad_(False)
freeze(model, {given})
"""
GIVEN = '__import__("os").environ.get("NO_SUCH_NAME", "enco_der").replace("_", "").split(",")'


@pytest.mark.parametrize("given", [GIVEN, '["encoder"]'])
def test_the_name_of_a_part_in_the_names_of_layers_of_another_part_is_told(given: str, tmp_path: Path) -> None:
    script = HEAD + PARTS.format(word="encoder_attn", below="nn.Linear(4, 4)", given=given) + STEPS
    assert_first_alarm(script, "prefix_matches_more", tmp_path)


@pytest.mark.parametrize(
    ("word", "below", "given"),
    [
        ("cross_attn", "nn.Linear(4, 4)", '["encoder"]'),
        ("encoder_attn", "nn.Linear(4, 4)", '["encoder.0"]'),
        ("encoder_attn", "nn.Linear(4, 4)", '["encoder", "decoder"]'),
        ("encoder", "nn.Linear(4, 4)", '["encoder"]'),
        ("pre_attn", "Layer()", '["attn"]'),
    ],
)
def test_parts_that_are_meant_are_left_alone(word: str, below: str, given: str, tmp_path: Path) -> None:
    script = HEAD + PARTS.format(word=word, below=below, given=given) + STEPS
    found = alarms(script, tmp_path)
    assert not [each for each in found if each.cause == "prefix_matches_more"]


SURFACES = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1, self.norm1 = nn.Linear(4, 8), nn.LayerNorm(8)
        self.layer2, self.norm2 = nn.Linear(8, 8), nn.LayerNorm(8)
        self.{head} = nn.Linear(8, 1)
    def forward(self, x):
        h = torch.relu(self.norm1(self.layer1(x)))
        return self.{head}(torch.relu(self.norm2(self.layer2(h))))
model = Model()
for name, p in model.named_parameters():
    if "norm" in name:  # HERE
        p.requires_grad_(False)
"""


def test_a_layer_that_is_frozen_with_the_normalizations_is_told(tmp_path: Path) -> None:
    assert_first_alarm(HEAD + SURFACES.format(head="normals") + STEPS, "prefix_matches_more", tmp_path)
    assert not alarms(HEAD + SURFACES.format(head="head") + STEPS, tmp_path)


def test_a_layer_beside_a_normalization_in_a_wrapper_is_left_alone(tmp_path: Path) -> None:
    script = SURFACES.format(head="head").replace('"norm" in name', '"norm1" in name or "norm2" in name')
    wrapped = script.replace(
        "self.norm1 = nn.Linear(4, 8), nn.LayerNorm(8)",
        "self.norm1 = nn.Linear(4, 8), nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8))",
    )
    assert not alarms(HEAD + wrapped.replace('"norm1" in name or "norm2" in name', '"norm" in name') + STEPS, tmp_path)


def test_a_parameter_of_no_module_is_no_layer(tmp_path: Path) -> None:
    script = """
norm, norm_scale, out = nn.LayerNorm(4), nn.Parameter(torch.ones(4)), nn.Parameter(torch.randn(4))
for name, p in [("norm_scale", norm_scale), ("out", out), *norm.named_parameters("norm")]:
    if "norm" in name:
        p.requires_grad_(False)
optimizer = torch.optim.SGD([out], lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    (norm(torch.randn(8, 4)) * norm_scale * out).square().mean().backward()
    optimizer.step()
"""
    assert not alarms(HEAD + script, tmp_path)
