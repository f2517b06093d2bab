"""With what each plain formula is compared with autograd: shapes, broadcasting, dimensions."""

from __future__ import annotations

from tests.integration.formulas.drawn import Case, given, on_shapes, positive, real

CASES: list[Case] = [
    *(
        given(node, self=real(*one), other=positive(*other), alpha=0.5)
        for node in ("AddBackward0", "SubBackward0", "MulBackward0", "DivBackward0")
        for one, other in (((3, 4), (3, 4)), ((3, 1), (4,)), ((), (2, 3)))
    ),
    given("RsubBackward1", self=real(3, 4), other=1, alpha=2),
    *on_shapes("NegBackward0", "ExpBackward0"),
    *on_shapes("ReciprocalBackward0", draw=positive),
    given("SoftmaxBackward0", self=real(3, 4), dim=1),
    given("SoftmaxBackward0", self=real(3, 4, 2), dim=0),
    given("AddmmBackward0", self=real(5), mat1=real(3, 4), mat2=real(4, 5), beta=1, alpha=1),
    given("AddmmBackward0", self=real(3, 1), mat1=real(3, 4), mat2=real(4, 5), beta=0.5, alpha=2),
]
