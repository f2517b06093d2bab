"""Hooks see gradients on their way, and may change them."""

import torch

x = torch.tensor([1.0, 2.0], requires_grad=True)
seen = []

hidden = x * 3
hidden.register_hook(lambda gradient: seen.append(gradient.tolist()))  # returns nothing: only looks
hidden.retain_grad()  # else only leaves keep a .grad
hidden.register_hook(lambda gradient: gradient.clamp(max=1))  # returns a tensor: replaces the gradient

hidden.square().sum().backward()
assert seen == [[6, 12]]  # 2 * hidden
assert hidden.grad.tolist() == [1, 1]  # retain_grad comes after all hooks
assert x.grad.tolist() == [3, 3]

after = []
weight = torch.tensor(1.0, requires_grad=True)
weight.register_post_accumulate_grad_hook(lambda leaf: after.append(leaf.grad.item()))
(weight * 4).backward()
assert after == [4]  # called when .grad is complete
