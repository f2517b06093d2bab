import torch
from torch import nn

import gradviz

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))

with gradviz.record() as recording:
    loss = model(torch.randn(3, 4)).sum()
    loss.backward()

graph = recording.graph
for node in graph.find("0.weight"):
    path = graph.descendants(node)
    print(node.name, "is used by", [used.name for used in path])
print(graph.to_networkx())
