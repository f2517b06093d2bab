"""Messages along the edges of a graph, which are added up at the end from which they come."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

GRAPH = (
    HEAD
    + """
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.own, self.others = nn.Linear(4, 4), nn.Linear(4, 4)
    def forward(self, x, edges, weights):
        src, dst = edges
        {messages}
        return self.own(x) + self.others(gathered)
first, second = Layer(), Layer()
optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.01)
edges, weights = torch.randint(0, 12, (2, 50)), torch.rand(50, 1)
for step in range(3):
    x = torch.randn(12, 4)
    h = second(torch.relu(first(x, edges, weights)), edges, weights)
    loss = (h - x.sin()).square().mean()
"""
    + TRAIN
)
FAULTY = [
    """gathered = torch.zeros_like(x)
        gathered.index_add_(0, src, x[src])  # HERE
        count = torch.zeros(len(x)).index_add_(0, dst, torch.ones(len(dst))).clamp(min=1)
        gathered = gathered / count[:, None]""",
    """message = torch.relu(self.others(x.index_select(0, src)))
        gathered = x.new_zeros(x.shape).scatter_add(0, src[:, None].expand(-1, 4), message)  # HERE
        gathered = gathered * (torch.bincount(dst, minlength=len(x)) > 0)[:, None] + 0.01 * x[dst].mean()""",
    """gathered = torch.zeros(12, 4).index_add(0, edges[1], x[edges[1]])  # HERE
        gathered = gathered + 0.01 * torch.zeros(12, 4).index_add(0, edges[0], weights * x[edges[0]])""",
]
FAULTY += [  # with nothing that reads the other end
    """gathered = torch.zeros_like(x).index_add(0, src, self.others(x)[src])  # HERE""",
    """message = x[edges[0]]
        gathered = x.new_zeros(12, 4).scatter_add_(0, edges[0][:, None].expand(-1, 4), message)  # HERE""",
]
HEALTHY = [
    # the number of edges that begin at each node
    """count = torch.zeros(12, 1).index_add(0, src, torch.ones(50, 1))
        gathered = count * self.others(x)""",
    "gathered = torch.zeros_like(x).index_add(0, dst, x[src])",
    "gathered = torch.zeros_like(x).index_add(0, src, x[dst])",
    # of data of the edges, and of both ends
    "gathered = torch.zeros_like(x).index_add(0, src, weights * x[src]) + 0.01 * x[dst].mean()",
    "gathered = torch.zeros_like(x).index_add(0, src, x[src] - x[dst])",
    # the sum of a softmax over the edges of each node
    """score = self.others(x[src] + x[dst])[:, :1].exp()
        total = torch.zeros(len(x), 1).index_add(0, dst, score)
        gathered = torch.zeros_like(x).index_add(0, dst, score / total[dst] * x[src])""",
]


@pytest.mark.parametrize("messages", FAULTY)
def test_messages_that_are_added_up_where_they_come_from_are_told(messages: str, tmp_path: Path) -> None:
    assert_first_alarm(GRAPH.format(messages=messages), "summed_at_source", tmp_path)


@pytest.mark.parametrize("messages", HEALTHY)
def test_messages_of_neighbours_and_of_edges_are_right(messages: str, tmp_path: Path) -> None:
    assert not alarms(GRAPH.format(messages=messages), tmp_path)


COUNTED = GRAPH.replace("(2, 50)), torch.rand(50, 1)", "(2, 30)), torch.rand(30, 1)")
AT_OTHER_END = [
    """count = torch.zeros(12).index_add(0, src, torch.ones(30)).clamp(min=1)  # HERE
        gathered = torch.zeros_like(x).index_add(0, dst, x[src]) / count[:, None]""",
    """count = torch.bincount(src, minlength=12).clamp(min=1).unsqueeze(1)  # HERE
        gathered = torch.zeros_like(x).index_add_(0, dst, torch.relu(self.others(x[src]))) / count""",
    """count = x.new_zeros(12).scatter_add_(0, dst, torch.ones_like(weights[:, 0]))  # HERE
        inverse = 1.0 / count.clamp(min=1)
        gathered = torch.zeros_like(x).index_add(0, src, x.index_select(0, dst)) * inverse.view(-1, 1)""",
    """one_way = edges[:, edges[0] != 11]
        count = torch.zeros(12).index_add(0, one_way[0], torch.ones(one_way.shape[1])).clamp(min=1)  # HERE
        gathered = torch.zeros_like(x).index_add(0, one_way[1], x[one_way[0]]) / count[:, None]""",
]
MEANS = [
    """count = torch.zeros(12).index_add(0, dst, torch.ones(30)).clamp(min=1)
        gathered = torch.zeros_like(x).index_add(0, dst, x[src]) / count[:, None]""",
    # the same numbers at both ends, because each edge goes both ways
    """src, dst = torch.cat([edges, edges.flip(0)], dim=1)
        count = torch.bincount(src, minlength=12).clamp(min=1)
        gathered = torch.zeros_like(x).index_add(0, dst, x[src]) / count[:, None]""",
    # each node shares out what it has
    """count = torch.bincount(src, minlength=12).clamp(min=1)
        gathered = torch.zeros_like(x).index_add(0, dst, (x / count[:, None])[src])""",
    """count = torch.bincount(src, minlength=12).clamp(min=1)[:, None]
        gathered = torch.zeros_like(x).index_add(0, dst, x[src])
        for turn in range(2):
            gathered = torch.zeros_like(x).index_add(0, dst, (gathered / count)[src])""",
    # with the roots of both
    """left = torch.bincount(src, minlength=12).clamp(min=1).rsqrt()[:, None]
        right = torch.bincount(dst, minlength=12).clamp(min=1).rsqrt()[:, None]
        gathered = torch.zeros_like(x).index_add(0, dst, (x * left)[src]) * right""",
    # weights of the edges
    """total = torch.zeros(12, 1).index_add(0, dst, weights).clamp(min=0.1)
        gathered = torch.zeros_like(x).index_add(0, dst, weights * x[src]) / total""",
]


@pytest.mark.parametrize("messages", AT_OTHER_END)
def test_numbers_of_edges_at_the_other_end_are_told(messages: str, tmp_path: Path) -> None:
    assert_first_alarm(COUNTED.format(messages=messages), "counted_at_other_end", tmp_path)


@pytest.mark.parametrize("messages", MEANS)
def test_means_over_neighbours_and_shares_are_right(messages: str, tmp_path: Path) -> None:
    assert not alarms(COUNTED.format(messages=messages), tmp_path)
