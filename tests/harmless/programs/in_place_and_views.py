"""In-place changes of views and bases, versions, a stale saved tensor, and refusals of torch."""

import torch

torch.manual_seed(0)
w = torch.randn(4, requires_grad=True)
base = w * 2
views = base.view(2, 2), base[:2], base.unsqueeze(0)
stale = base[0]
base.add_(1)
views[0].mul_(2)
base[1] = 0.5
base.data.add_(1)
loss = base.sum() + views[0].sum() + stale
loss.backward()
versions = [t._version for t in (base, *views, stale)]
messages = []
for attempt in (
    lambda: w.add_(1),
    lambda: (lambda e: (e.add_(1), e.sum().backward()))(w.exp()),
    lambda: w.chunk(2)[0].mul_(2),
    lambda: w.view(2, 2).sub_(1),
):
    try:
        attempt()
    except RuntimeError as error:
        messages.append(str(error))
unbound = (w * 1).unbind()
with torch.no_grad():
    w.add_(1)
    w.grad.zero_()
w.requires_grad_(False)
