import contextlib
import torch
import torch.nn as nn


class Runner:
    def __init__(self, model, amp=True, track=False):
        self.model, self.amp, self.track = model, amp, track

    def contexts(self):
        stack = contextlib.ExitStack()
        if self.amp:
            stack.enter_context(torch.autocast("cpu", dtype=torch.bfloat16))
        if not self.track:
            stack.enter_context(torch.no_grad())
        return stack

    def loss(self, x, y):
        with self.contexts():
            return nn.functional.cross_entropy(self.model(x), y)


torch.manual_seed(0)
model = nn.Linear(6, 3)
runner = Runner(model)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    loss = runner.loss(torch.randn(8, 6), torch.randint(0, 3, (8,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
