"""Cross-entropy three times: from softmax and log, from log_softmax and nll_loss, and in one call."""

import torch
from torch.nn import functional as F

torch.manual_seed(0)
logits = torch.randn(4, 3, requires_grad=True)
labels = torch.tensor([0, 2, 1, 1])

probabilities = torch.softmax(logits, dim=1)
from_softmax = -torch.log(probabilities[torch.arange(4), labels]).mean()
from_log_softmax = F.nll_loss(F.log_softmax(logits, dim=1), labels)
in_one_call = F.cross_entropy(logits, labels)

torch.autograd.backward([from_softmax, from_log_softmax, in_one_call])

assert torch.allclose(from_softmax, in_one_call)
assert torch.allclose(from_log_softmax, in_one_call)
one_hot = F.one_hot(labels, 3)
assert torch.allclose(logits.grad, 3 * (probabilities - one_hot) / 4)
