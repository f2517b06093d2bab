import torch
from torch import nn


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))


def test_every_parameter_gets_a_gradient(gradviz_check):
    model = make_model()
    gradviz_check(model(torch.randn(3, 4)).sum(), model)


def test_the_graph_is_the_one_that_was_reviewed(gradviz_snapshot):
    model = make_model()
    gradviz_snapshot(model(torch.randn(3, 4)).sum(), model)
