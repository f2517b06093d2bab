"""Networks on graphs, of `torch_geometric`: their operations gather and scatter along an index."""

# What calling a module gives has no type.
# mypy: no-warn-return-any
from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as geometric

from tests.zoo.family import Family, Subject

WIDTH = 16
NODES = 20
EDGES = 60


class Stack(nn.Module):
    """Some convolutions with dropout between them, and one class for each node."""

    def __init__(self, convolutions: list[nn.Module]) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(convolutions)
        self.last = nn.Linear(WIDTH, 3)

    def forward(self, features: torch.Tensor, edges: torch.Tensor, **more: Any) -> torch.Tensor:
        for convolution in self.convolutions:
            features = F.dropout(F.relu(convolution(features, edges, **more)), p=0.1, training=self.training)
        return self.last(features)


def _stack_of(name: str, **options: Any) -> Subject:
    layer = getattr(geometric, name)
    heads = options.get("heads", 1)
    model = Stack([layer(WIDTH, WIDTH // heads, **options) for _ in range(3)])
    return Subject(model.train(), _random_graph())


def _random_graph() -> dict[str, Any]:
    return {"features": torch.randn(NODES, WIDTH), "edges": torch.randint(0, NODES, (2, EDGES))}


def _isomorphism() -> Subject:
    def mlp() -> nn.Module:
        return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))

    return Subject(Stack([geometric.GINConv(mlp(), train_eps=True) for _ in range(3)]).train(), _random_graph())


def _relational() -> Subject:
    model = Stack([geometric.RGCNConv(WIDTH, WIDTH, num_relations=3, num_bases=2) for _ in range(3)])
    return Subject(model.train(), {**_random_graph(), "edge_type": torch.randint(0, 3, (EDGES,))})


def _principal_neighbourhood() -> Subject:
    degrees = torch.tensor([1, 4, 6, 5, 4])
    layers = [
        geometric.PNAConv(WIDTH, WIDTH, ["mean", "min", "max", "std"], ["identity", "amplification"], degrees)
        for _ in range(3)
    ]
    return Subject(Stack(layers).train(), _random_graph())


def _u_net() -> Subject:
    graph = _random_graph()
    model = geometric.GraphUNet(WIDTH, WIDTH, 3, depth=3, pool_ratios=0.5)
    return Subject(model.train(), {"x": graph["features"], "edge_index": graph["edges"]})


def _all_pairs(positions: torch.Tensor, batch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Every atom with every other one, and how far they are apart."""
    pairs = torch.combinations(torch.arange(len(positions))).T
    return pairs, (positions[pairs[0]] - positions[pairs[1]]).norm(dim=1)


def _molecule() -> Subject:
    model = geometric.SchNet(
        hidden_channels=WIDTH, num_filters=WIDTH, num_interactions=3, num_gaussians=10, interaction_graph=_all_pairs
    )
    molecule = {"z": torch.randint(1, 9, (12,)), "pos": torch.randn(12, 3), "batch": torch.zeros(12, dtype=torch.long)}
    return Subject(model.train(), molecule)


FAMILIES = (
    Family("GCN", "graph network", lambda: _stack_of("GCNConv")),
    Family("GraphSAGE", "graph network", lambda: _stack_of("SAGEConv", aggr="max")),
    Family("GAT", "graph network", lambda: _stack_of("GATConv", heads=4, dropout=0.1)),
    Family("graph transformer", "graph network", lambda: _stack_of("TransformerConv", heads=4, dropout=0.1)),
    Family("GIN", "graph network", _isomorphism),
    Family("R-GCN", "graph network", _relational),
    Family("PNA", "graph network", _principal_neighbourhood),
    Family("graph U-Net", "graph network", _u_net),
    Family("SchNet", "graph network", _molecule),
)
