"""Complex numbers and Fourier transforms.

torch's gradient of a complex x is ∂L/∂Re x + i ∂L/∂Im x: the direction in which the loss grows.
"""

from __future__ import annotations

from gradviz.formulas.plain.plain_formula import PlainFormula, Trap

_SCALING = "normalization is 0 for none, 1 for 1 / √n and 2 for 1 / n."

COMPLEX_NUMBERS = (
    PlainFormula(
        "ConjBackward0",
        "The conjugate.",
        "torch.conj(self)",
        {"self": "grad.conj()"},
        always_complex=True,
    ),
    PlainFormula(
        "ViewAsRealBackward0",
        "Real and imaginary part as a last dimension of two; x.real and x.imag take one of them.",
        "torch.view_as_real(self)",
        {"self": "torch.view_as_complex(grad)"},
        always_complex=True,
    ),
    PlainFormula(
        "ViewAsComplexBackward0",
        "A last dimension of two as real and imaginary part.",
        "torch.view_as_complex(self)",
        {"self": "torch.view_as_real(grad)"},
        always_complex=True,
    ),
    PlainFormula(
        "ComplexBackward0",
        "A complex number from its real and imaginary part.",
        "torch.complex(real, imag)",
        {"real": "grad.real", "imag": "grad.imag"},
        forward="real + 1j * imag",
        symbols={"real": "a", "imag": "b"},
        always_complex=True,
    ),
    PlainFormula(
        "PolarBackward0",
        "A complex number from its absolute value and angle.",
        "torch.polar(abs, angle)",
        {"abs": "(grad.conj() * torch.sgn(result)).real", "angle": "(grad.conj() * 1j * result).real"},
        forward="abs * torch.exp(1j * angle)",
        symbols={"abs": "r", "angle": "φ"},
        always_complex=True,
    ),
    PlainFormula(
        "AngleBackward0",
        "The angle of a complex number.",
        "torch.angle(self)",
        {"self": "1j * grad * self / torch.abs(self) ** 2"},
        always_complex=True,
        traps=(
            Trap(
                "Of a real number the angle is 0 or π, a step function: the gradient is 0.",
                "x = torch.tensor([-2.0], requires_grad=True)\ntorch.angle(x).backward()\nx.grad",
                "[0.0]",
            ),
            Trap(
                "At 0 there is no angle; torch gives the gradient 0.",
                "x = torch.zeros(1, dtype=torch.complex64, requires_grad=True)\ntorch.angle(x).backward()\nx.grad",
                "[0j]",
            ),
        ),
    ),
    PlainFormula(
        "FftC2CBackward0",
        "A Fourier transform of complex numbers, forth or back.",
        "torch.ops.aten._fft_c2c(self, dim, normalization, forward)",
        {"self": "torch.ops.aten._fft_c2c(grad, dim, normalization, not forward)"},
        always_complex=True,
        note=f"The gradient is transformed in the other direction, with the same factor. {_SCALING}",
    ),
    PlainFormula(
        "FftR2CBackward0",
        "A Fourier transform of real numbers.",
        "torch.ops.aten._fft_r2c(self, dim, normalization, onesided)",
        {"self": "torch.ops.aten._fft_c2c(whole, dim, normalization, forward=False).real"},
        where={
            "whole": "torch.zeros_like(self, dtype=grad.dtype).slice_scatter(grad, dim[-1], 0, grad.size(dim[-1]), 1)",
        },
        symbols={"whole": "z"},
        always_complex=True,
        note=f"z is ȳ, with 0 for the frequencies that a one-sided transform leaves out. {_SCALING}",
    ),
    PlainFormula(
        "FftC2RBackward0",
        "A Fourier transform back to real numbers.",
        "torch.ops.aten._fft_c2r(self, dim, normalization, last_dim_size)",
        {"self": "twice * torch.ops.aten._fft_r2c(grad, dim, normalization, onesided=True)"},
        where={
            "frequency": "torch.arange(self.size(-1))",
            "twice": "1 + ((frequency > 0) & (2 * frequency < last_dim_size)).to(grad.dtype)",
        },
        symbols={"frequency": "f", "twice": "d", "last_dim_size": "n"},
        always_complex=True,
        note="Every frequency between the first and the last represents two, so it counts twice. Written for a "
        f"transform that ends with the last dimension. {_SCALING}",
    ),
)
