"""Functions and modules without a backward of their own: which nodes a call of them makes.

torch's files only say that they are made of other functions. A test runs every call.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Composition:
    """One call, and the nodes that it makes."""

    words: tuple[str, ...]
    """Its names for users: functions without ``torch.`` or ``F.``, classes of modules without ``nn.``."""
    call: str
    """A call on the CPU, where it matters. ``x`` and ``y`` are matrices, ``batch`` and ``image`` have more dimensions.
    """
    nodes: tuple[str, ...]
    """The main node first, then the others from the inputs to the result, without views and casts."""


@lru_cache(maxsize=1)
def compositions() -> dict[str, tuple[Composition, ...]]:
    """The calls that each word means; several if the nodes depend on shapes, the usual call first."""
    found: dict[str, tuple[Composition, ...]] = {}
    for each in _read(_TABLE):
        for word in each.words:
            found[word] = (*found.get(word, ()), each)
    return found


def _read(table: str) -> list[Composition]:
    rows = ([part.strip() for part in line.split("|")] for line in table.strip().splitlines())
    return [Composition(tuple(words.split()), call, tuple(nodes.split())) for words, call, nodes in rows]


_TABLE = """
softmax Softmax Softmax2d | F.softmax(x, -1) | SoftmaxBackward0
log_softmax LogSoftmax | F.log_softmax(x, -1) | LogSoftmaxBackward0
softmin Softmin | F.softmin(x, -1) | SoftmaxBackward0 NegBackward0
gumbel_softmax | F.gumbel_softmax(x) | SoftmaxBackward0 AddBackward0 DivBackward0
cross_entropy CrossEntropyLoss | F.cross_entropy(x, labels) | LogSoftmaxBackward0 NllLossBackward0
nll_loss NLLLoss | F.nll_loss(x, labels) | NllLossBackward0
MSELoss | F.mse_loss(x, y) | MseLossBackward0
l1_loss L1Loss | F.l1_loss(x, y) | AbsBackward0 SubBackward0 MeanBackward0
SmoothL1Loss | F.smooth_l1_loss(x, y) | SmoothL1LossBackward0
HuberLoss | F.huber_loss(x, y) | HuberLossBackward0
BCELoss | F.binary_cross_entropy(p, y) | BinaryCrossEntropyBackward0
BCEWithLogitsLoss | F.binary_cross_entropy_with_logits(x, y) | BinaryCrossEntropyWithLogitsBackward0
kl_div KLDivLoss | F.kl_div(x, y) | XlogyBackward0 MulBackward0 SubBackward0 MeanBackward0
poisson_nll_loss PoissonNLLLoss | F.poisson_nll_loss(x, y) | ExpBackward0 MulBackward0 SubBackward0 MeanBackward0
ctc_loss CTCLoss | F.ctc_loss(log_p, targets, lengths, counts) | CtcLossBackward0 DivBackward0 MeanBackward0
triplet_margin_loss TripletMarginLoss | F.triplet_margin_loss(x, y, z) | NormBackward1 SubBackward0 AddBackward1 \
    ClampMinBackward0 MeanBackward0
cosine_similarity CosineSimilarity | F.cosine_similarity(x, y) | LinalgVectorNormBackward0 CloneBackward0 \
    DivBackward0 MulBackward0 SumBackward1
pairwise_distance PairwiseDistance | F.pairwise_distance(x, y) | NormBackward1 SubBackward0 AddBackward1
linear Linear | F.linear(x, weight, bias) | AddmmBackward0
linear Linear | F.linear(x, weight) | MmBackward0
bilinear Bilinear | F.bilinear(x, y, cube) | TrilinearBackward0
matmul | x @ square | MmBackward0
matmul | batch @ batch.mT | BmmBackward0
matmul | x @ vector | MvBackward0
matmul | vector @ vector | DotBackward0
einsum | torch.einsum("ij,kj->ik", x, y) | BmmBackward0
tensordot | torch.tensordot(x, square, 1) | MmBackward0
outer ger | torch.outer(vector, vector) | MulBackward0
inner | torch.inner(x, y) | MmBackward0
layer_norm LayerNorm | F.layer_norm(x, (4,), scale, shift) | NativeLayerNormBackward0
rms_norm RMSNorm | F.rms_norm(x, (4,), scale) | RsqrtBackward0 PowBackward0 MeanBackward1 AddBackward1 MulBackward0
batch_norm BatchNorm1d BatchNorm2d BatchNorm3d | F.batch_norm(image, None, None, training=True) | \
    NativeBatchNormBackward0
group_norm GroupNorm | F.group_norm(image, 3) | NativeGroupNormBackward0
instance_norm InstanceNorm1d InstanceNorm2d InstanceNorm3d | F.instance_norm(image) | NativeBatchNormBackward0
normalize | F.normalize(x) | LinalgVectorNormBackward0 ClampMinBackward0 DivBackward0
norm frobenius_norm linalg_norm | torch.linalg.norm(x) | LinalgVectorNormBackward0
linalg_matrix_norm | torch.linalg.matrix_norm(x) | LinalgVectorNormBackward0
conv1d Conv1d | F.conv1d(line, kernel1) | ConvolutionBackward0
conv2d Conv2d | F.conv2d(image, kernel) | ConvolutionBackward0
conv3d Conv3d | F.conv3d(volume, kernel3) | ConvolutionBackward0
conv_transpose2d ConvTranspose2d | F.conv_transpose2d(image, kernel_t) | ConvolutionBackward0
conv_transpose1d ConvTranspose1d | nn.ConvTranspose1d(3, 2, 2)(line) | ConvolutionBackward0
conv_transpose3d ConvTranspose3d | nn.ConvTranspose3d(2, 2, 2)(volume) | ConvolutionBackward0
max_pool1d MaxPool1d | F.max_pool1d(line, 2) | MaxPool2DWithIndicesBackward0
max_pool2d MaxPool2d | F.max_pool2d(image, 2) | MaxPool2DWithIndicesBackward0
max_pool3d MaxPool3d | F.max_pool3d(volume, 2) | MaxPool3DWithIndicesBackward0
avg_pool1d AvgPool1d | F.avg_pool1d(line, 2) | AvgPool2DBackward0
AvgPool2d | F.avg_pool2d(image, 2) | AvgPool2DBackward0
adaptive_avg_pool1d AdaptiveAvgPool1d | F.adaptive_avg_pool1d(line, 2) | AdaptiveAvgPool2DBackward0
adaptive_avg_pool2d AdaptiveAvgPool2d | F.adaptive_avg_pool2d(image, 2) | AdaptiveAvgPool2DBackward0
adaptive_avg_pool2d AdaptiveAvgPool2d | F.adaptive_avg_pool2d(image, 1) | MeanBackward1
AdaptiveMaxPool2d | F.adaptive_max_pool2d(image, 2) | AdaptiveMaxPool2DBackward0
dropout Dropout dropout2d Dropout2d | F.dropout(x) | MulBackward0
Embedding | F.embedding(labels, x) | EmbeddingBackward0
embedding_bag EmbeddingBag | F.embedding_bag(bags, x) | EmbeddingBagBackward0
scaled_dot_product_attention MultiheadAttention | F.scaled_dot_product_attention(q, q, q) | \
    ScaledDotProductFlashAttentionForCpuBackward0
TransformerEncoderLayer | nn.TransformerEncoderLayer(4, 2, dropout=0.0)(batch) | \
    ScaledDotProductFlashAttentionForCpuBackward0 AddmmBackward0 AddBackward0 NativeLayerNormBackward0 ReluBackward0 \
    CloneBackward0
TransformerDecoderLayer | nn.TransformerDecoderLayer(4, 2, dropout=0.0)(batch, batch) | \
    ScaledDotProductFlashAttentionForCpuBackward0 AddmmBackward0 AddBackward0 NativeLayerNormBackward0 ReluBackward0 \
    CloneBackward0
RNNCell rnn_tanh_cell | nn.RNNCell(4, 2)(x) | AddmmBackward0 AddBackward0 TanhBackward0
RNN rnn_tanh | nn.RNN(4, 2)(x)[0] | TanhBackward0 AddmmBackward0 AddBackward0 StackBackward0
LSTM lstm | nn.LSTM(4, 2)(batch)[0] | MkldnnRnnLayerBackward0
GRU gru | nn.GRU(4, 2)(batch)[0] | AddmmBackward0 SigmoidBackward0 SubBackward0 TanhBackward0 MulBackward0 \
    AddBackward0 StackBackward0
LSTMCell lstm_cell | nn.LSTMCell(4, 2)(x)[0] | AddmmBackward0 AddBackward0 TanhBackward0 SigmoidBackward0 MulBackward0
GRUCell gru_cell | nn.GRUCell(4, 2)(x) | AddmmBackward0 SigmoidBackward0 SubBackward0 TanhBackward0 MulBackward0 \
    AddBackward0
weight_norm | weight_norm(nn.Linear(4, 2))(x) | WeightNormInterfaceBackward0 AddmmBackward0
ReLU | F.relu(x) | ReluBackward0
relu6 ReLU6 | F.relu6(x) | HardtanhBackward0
LeakyReLU | F.leaky_relu(x) | LeakyReluBackward0
rrelu RReLU | F.rrelu(x, training=True) | RreluWithNoiseBackward0
ELU | F.elu(x) | EluBackward0
selu SELU | F.selu(x) | EluBackward0
CELU | F.celu(x) | CeluBackward0
GELU | F.gelu(x) | GeluBackward0
SiLU | F.silu(x) | SiluBackward0
Mish | F.mish(x) | MishBackward0
GLU | F.glu(x) | GluBackward0
prelu PReLU | F.prelu(x, vector) | PreluKernelBackward0
Softplus | F.softplus(x) | SoftplusBackward0
softsign Softsign | F.softsign(x) | DivBackward0 AbsBackward0 AddBackward0
tanhshrink Tanhshrink | F.tanhshrink(x) | TanhBackward0 SubBackward0
logsigmoid log_sigmoid LogSigmoid | F.logsigmoid(x) | LogSigmoidBackward0
interpolate Upsample UpsamplingNearest2d | F.interpolate(image, scale_factor=2) | UpsampleNearest2DBackward0
UpsamplingBilinear2d | nn.UpsamplingBilinear2d(scale_factor=2)(image) | UpsampleBilinear2DBackward0
pad ConstantPad1d ConstantPad2d ConstantPad3d ZeroPad1d ZeroPad2d ZeroPad3d | F.pad(x, (1, 1)) | ConstantPadNdBackward0
grid_sample | F.grid_sample(image, grid) | GridSampler2DBackward0
unfold Unfold im2col | F.unfold(image, 2) | Im2ColBackward0
fold Fold col2im | F.fold(columns, (8, 8), 2) | Col2ImBackward0
square | torch.square(x) | PowBackward0
pow | x ** 2 | PowBackward0
pow | x ** y | PowBackward1
pow | 2 ** x | PowBackward2
multiply | x * y | MulBackward0
subtract | x - y | SubBackward0
divide true_divide | x / y | DivBackward0
negative | -x | NegBackward0
absolute | abs(x) | AbsBackward0
max | x.max(dim=1).values | MaxBackward0
max | x.max() | MaxBackward1
max | torch.max(x, y) | MaximumBackward0
min | x.min(dim=1).values | MinBackward0
min | x.min() | MinBackward1
min | torch.min(x, y) | MinimumBackward0
quantile | torch.quantile(x, 0.5) | LerpBackward1 SortBackward0 GatherBackward0
reshape | x.reshape(4, 3) | ViewBackward0
reshape | x.T.reshape(12) | CloneBackward0
flatten Flatten | x.flatten() | ViewBackward0
ravel | x.ravel() | ViewBackward0
unflatten Unflatten | x.unflatten(1, (2, 2)) | ViewBackward0
contiguous | x.T.contiguous() | CloneBackward0
getitem | x[0] | SelectBackward0
getitem | x[:, 1:] | SliceBackward0
getitem | x[rows] | IndexBackward0
concat concatenate hstack vstack | torch.cat([x, y]) | CatBackward0
chunk | x.chunk(2)[0] | SplitBackward0
tile | x.tile(2) | RepeatBackward0
repeat_interleave | x.repeat_interleave(2) | CloneBackward0
expand_as broadcast_to | vector.expand_as(x) | ExpandBackward0
t T | x.t() | TBackward0
T | x.T | PermuteBackward0
mT swapaxes swapdims | batch.mT | TransposeBackward0
movedim moveaxis | batch.movedim(0, 1) | PermuteBackward0
narrow | x.narrow(0, 0, 2) | SliceBackward0
take_along_dim | x.take_along_dim(order, 1) | GatherBackward0
diag | square.diag() | DiagonalBackward0_copy
to double float half type | x.to(torch.float64) | ToCopyBackward0
clip | x.clip(0, 1) | ClampBackward1
clamp | x.clamp(0, 1) | ClampBackward1
real | z.real | SelectBackward0
imag | z.imag | SelectBackward0
svd linalg_svdvals | torch.linalg.svdvals(x) | LinalgSvdBackward0
linalg_inv inverse | torch.linalg.inv(square) | LinalgInvExBackward0
linalg_solve | torch.linalg.solve(square, vector) | LinalgSolveExBackward0
linalg_det det | torch.linalg.det(square) | LinalgDetBackward0
linalg_cholesky | torch.linalg.cholesky(positive) | LinalgCholeskyExBackward0
linalg_vecdot | torch.linalg.vecdot(x, y) | MulBackward0 SumBackward1
linalg_matrix_power | torch.linalg.matrix_power(square, 2) | MmBackward0
linalg_multi_dot chain_matmul | torch.linalg.multi_dot([x, square, square]) | MmBackward0
fft_fft | torch.fft.fft(x) | FftR2CBackward0
fft_fft | torch.fft.fft(z) | FftC2CBackward0
fft_rfft | torch.fft.rfft(x) | FftR2CBackward0
fft_irfft | torch.fft.irfft(z) | FftC2RBackward0
fft_fft2 | torch.fft.fft2(z) | FftC2CBackward0
cdist | torch.cdist(x, y) | CdistBackward0
cov | x.cov() | MmBackward0 SumBackward1 SubBackward0 DivBackward0
float_power | torch.float_power(x, 2) | PowBackward0
gaussian_nll_loss GaussianNLLLoss | F.gaussian_nll_loss(x, y, p) | LogBackward0 DivBackward0 PowBackward0 \
    SubBackward0 CloneBackward0 AddBackward0 MulBackward0 MeanBackward0
"""
