"""Values without a gradient that only select what is trained on, and values that the loss is computed from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

ACTIVE = """
pool = torch.randn(40, 5)
labels = (pool[:, 0] > 0).long()
picked = torch.arange(6)
for part in range(3):
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(2):
        loss = F.cross_entropy(model(pool[picked]), labels[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
RIGHT = {
    "topk, joined with other indices": ACTIVE
    + """
    with torch.no_grad():
        p = model(pool).softmax(1)
        picked = torch.cat([picked, (-(p * p.log()).sum(1)).topk(4).indices])
""",
    "a mask, by a comparison": ACTIVE
    + """
    gap = model(pool).detach().diff(dim=1).abs().squeeze(1)
    picked = (gap <= gap.median()).nonzero().squeeze(1)
""",
    "an index of an index, by way of a list": ACTIVE
    + """
    rest = torch.randperm(40)[:20]
    with torch.inference_mode():
        order = model(pool[rest]).amax(1).argsort()[:5].tolist()
    picked = rest[torch.tensor(order)]
""",
}
WRONG = {
    "select after they are used": """
encoder, head = nn.Linear(6, 5), nn.Linear(5, 1)
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    x = torch.randn(9, 6)
    with torch.no_grad():  # HERE
        h = encoder(x)
    rows = h.sum(1).argsort()[:4]
    loss = head(h[rows]).square().mean()
""",
    "select from what is computed from them": """
body, top = nn.Linear(3, 4), nn.Linear(4, 2)
optimizer = torch.optim.Adam([*body.parameters(), *top.parameters()])
for step in range(3):
    h = body(torch.randn(8, 3)).detach()  # HERE
    scores = top(h)
    loss = scores[h.norm(dim=1).topk(5).indices].logsumexp(1).mean()
""",
}


@pytest.mark.parametrize("script", RIGHT.values(), ids=RIGHT)
def test_values_that_only_select_rows_are_no_cut(script: str, tmp_path: Path) -> None:
    assert alarms(HEAD + script, tmp_path) == []


@pytest.mark.parametrize(("name", "cause"), list(zip(WRONG, ("no_grad_block", "detached"), strict=True)))
def test_values_that_are_computed_with_are_cut_also_where_they_select(name: str, cause: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + WRONG[name] + TRAIN, cause, tmp_path)
