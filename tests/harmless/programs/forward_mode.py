"""Dual numbers of forward-mode differentiation, beside a backward."""

import torch
import torch.autograd.forward_ad as forward_ad

torch.manual_seed(0)
x, tangent = torch.randn(3, requires_grad=True), torch.randn(3)
with forward_ad.dual_level():
    dual = forward_ad.make_dual(x, tangent)
    out = (dual.exp() * dual).sum()
    value, derivative = forward_ad.unpack_dual(out)
    value.backward(retain_graph=True)
    derivative.backward()
