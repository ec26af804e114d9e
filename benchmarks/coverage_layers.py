"""Modules, losses and functions of torch.nn for `make coverage`: {name: (constructor, inputs)}.

The first input's leading dimension is the batch.
"""

import torch
from torch import nn
from torch.nn import functional as F

_ROWS = ["normal", 8, 16]
_POSITIVE = ["uniform", 8, 16]
_LINES = ["normal", 8, 4, 16]
_IMAGES = ["normal", 8, 4, 8, 8]
_VOLUMES = ["normal", 8, 4, 4, 4, 4]
_WORDS = ["integers", 32, 8, 6]
_CLASSES = ["integers", 16, 8]
_SIGNS = ["integers", 2, 8, 16]


def _module(make, *inputs):
    return make, inputs


def _function(function, *inputs):
    return lambda: function, inputs


def _sign(x):
    return 2.0 * x.to(torch.float64) - 1.0


class _Bag(nn.Module):
    """Of words in bags of given sizes."""

    def __init__(self, **options):
        super().__init__()
        self.bag = nn.EmbeddingBag(32, 8, **options)

    def forward(self, words):
        return self.bag(words)


class _Ragged(nn.Module):
    """Bags one behind the other, with where each begins."""

    def __init__(self, mode):
        super().__init__()
        self.bag = nn.EmbeddingBag(32, 8, mode=mode)

    def forward(self, words):
        starts = torch.arange(0, words.numel(), 6)
        return self.bag(words.reshape(-1), starts)


class _Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.layer = kind(8, 16, batch_first=True, **options)

    def forward(self, x):
        return self.layer(x)[0]


class _Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Transformer(16, 4, 1, 1, 32, batch_first=True)

    def forward(self, x, y):
        return self.layer(
            x, y, tgt_is_causal=True, tgt_mask=nn.Transformer.generate_square_subsequent_mask(6)
        )


class _SelfAttention(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.layer = nn.MultiheadAttention(16, 4, batch_first=True, **options)

    def forward(self, x):
        return self.layer(x, x, x)


class _AdaptiveSoftmax(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.AdaptiveLogSoftmaxWithLoss(16, 20, [5, 10])

    def forward(self, x, classes):
        return self.layer(x, classes).loss


class _Normed(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.layer = norm(nn.Linear(16, 8))

    def forward(self, x):
        return self.layer(x)


def _ctc(logits, targets):
    lengths = torch.full((8,), 12), torch.full((8,), 4)
    return F.ctc_loss(logits.transpose(0, 1).log_softmax(-1), targets + 1, *lengths)


def _ctc_lengths(logits, targets, lengths, target_lengths):
    return F.ctc_loss(
        logits.transpose(0, 1).log_softmax(-1), targets + 1, lengths + 9, target_lengths + 1
    )


def _sampled(mode, padding="zeros", corners=False):
    def function(images, grid):
        return F.grid_sample(
            images, grid.tanh() * 1.2, mode=mode, padding_mode=padding, align_corners=corners
        )

    return function


def _affine(images, theta):
    grid = F.affine_grid(theta, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)


def _resized(mode, size, **options):
    return lambda x: F.interpolate(x, size, mode=mode, **options)


def _spectrum(x):
    return torch.fft.rfft(x, norm="ortho").abs() + 0.1


def _filtered(x):
    spectrum = torch.fft.rfft(x)
    gain = 1.0 / (1.0 + torch.arange(spectrum.shape[-1], dtype=x.dtype))
    return torch.fft.irfft(spectrum * gain, n=x.shape[-1])


def _spectrogram(x):
    window = torch.hann_window(16, dtype=x.dtype)
    return torch.stft(x, 16, hop_length=8, window=window, return_complex=True).abs().square()


def _solve(x):
    lower = x @ x.transpose(-1, -2) / 4 + 4 * torch.eye(4, dtype=x.dtype)
    return torch.linalg.solve_triangular(lower.tril(), x, upper=False)


def _cholesky(x):
    return torch.linalg.cholesky(x @ x.transpose(-1, -2) + 4 * torch.eye(4, dtype=x.dtype))


def _labelled(logits, labels):
    """Rows with a label, as token classifiers train."""
    seen = labels > 3
    return F.cross_entropy(logits[seen], labels[seen])


def _checked(x, labels):
    assert (labels >= 0).all(), "a label is negative"
    if not torch.isfinite(x).all():
        raise ValueError("not finite")
    return F.cross_entropy(x, labels)


def _written(x):
    y = torch.zeros_like(x)
    y.as_strided((8, 8), (16, 2)).copy_(x[:, ::2])
    return y + x


def _drawn(x):
    return x * torch.empty_like(x).exponential_(2.0)


def _pulled(x, other):
    return F.triplet_margin_loss(x, other, other.flip(0))


LAYERS = {
    # Layers
    "Linear": _module(lambda: nn.Linear(16, 8), _ROWS),
    "Bilinear": _module(lambda: nn.Bilinear(16, 16, 4), _ROWS, _ROWS),
    "Embedding": _module(lambda: nn.Embedding(32, 8, padding_idx=0), _WORDS),
    "EmbeddingBag.mean": _module(lambda: _Bag(mode="mean"), _WORDS),
    "EmbeddingBag.sum": _module(lambda: _Bag(mode="sum"), _WORDS),
    "EmbeddingBag.max": _module(lambda: _Bag(mode="max"), _WORDS),
    "EmbeddingBag.offsets": _module(lambda: _Ragged("mean"), _WORDS),
    "EmbeddingBag.padding": _module(lambda: _Bag(mode="mean", padding_idx=0), _WORDS),
    "Conv1d": _module(lambda: nn.Conv1d(4, 8, 3, padding=1), _LINES),
    "Conv1d.causal": _module(lambda: nn.Conv1d(4, 4, 4, padding=3, groups=4), _LINES),
    "Conv2d": _module(lambda: nn.Conv2d(4, 8, 3, stride=2, padding=1), _IMAGES),
    "Conv2d.same": _module(lambda: nn.Conv2d(4, 8, 3, padding="same", dilation=2), _IMAGES),
    "Conv2d.reflect": _module(lambda: nn.Conv2d(4, 8, 3, padding=1, padding_mode="reflect"), _IMAGES),
    "Conv2d.circular": _module(lambda: nn.Conv2d(4, 8, 3, padding=1, padding_mode="circular"), _IMAGES),
    "Conv3d": _module(lambda: nn.Conv3d(4, 4, 2), _VOLUMES),
    "ConvTranspose1d": _module(lambda: nn.ConvTranspose1d(4, 4, 4, stride=2, padding=1), _LINES),
    "ConvTranspose2d": _module(lambda: nn.ConvTranspose2d(4, 4, 3, 2, 1, output_padding=1), _IMAGES),
    "ConvTranspose3d": _module(lambda: nn.ConvTranspose3d(4, 4, 2, stride=2), _VOLUMES),
    "Unfold": _module(lambda: nn.Unfold(3, padding=1), _IMAGES),
    "Fold": _module(lambda: nn.Fold((4, 4), 2), ["normal", 8, 16, 9]),
    "PixelShuffle": _module(lambda: nn.PixelShuffle(2), _IMAGES),
    "PixelUnshuffle": _module(lambda: nn.PixelUnshuffle(2), _IMAGES),
    "ChannelShuffle": _module(lambda: nn.ChannelShuffle(2), _IMAGES),
    # Pooling
    "MaxPool1d": _module(lambda: nn.MaxPool1d(3, 2, 1), _LINES),
    "MaxPool2d": _module(lambda: nn.MaxPool2d(3, 2, 1), _IMAGES),
    "MaxPool3d": _module(lambda: nn.MaxPool3d(2), _VOLUMES),
    "AvgPool1d": _module(lambda: nn.AvgPool1d(3, 2, 1), _LINES),
    "AvgPool2d": _module(lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False), _IMAGES),
    "AvgPool3d": _module(lambda: nn.AvgPool3d(2), _VOLUMES),
    "AdaptiveAvgPool2d": _module(lambda: nn.AdaptiveAvgPool2d(3), _IMAGES),
    "AdaptiveMaxPool2d": _module(lambda: nn.AdaptiveMaxPool2d(3), _IMAGES),
    "LPPool2d": _module(lambda: nn.LPPool2d(2, 2), _IMAGES),
    "FractionalMaxPool2d": _module(lambda: nn.FractionalMaxPool2d(2, output_size=4), _IMAGES),
    "MaxUnpool2d": _function(lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), _IMAGES),
    # Padding
    "ReflectionPad2d": _module(lambda: nn.ReflectionPad2d(2), _IMAGES),
    "ReplicationPad2d": _module(lambda: nn.ReplicationPad2d(2), _IMAGES),
    "CircularPad2d": _module(lambda: nn.CircularPad2d(2), _IMAGES),
    "ZeroPad2d": _module(lambda: nn.ZeroPad2d((1, 2, 0, 1)), _IMAGES),
    # Up-sampling
    "Upsample.nearest": _module(lambda: nn.Upsample(scale_factor=2), _IMAGES),
    "Upsample.bilinear": _module(lambda: nn.Upsample(scale_factor=2, mode="bilinear"), _IMAGES),
    "interpolate.linear": _function(_resized("linear", 24), _LINES),
    "interpolate.bilinear": _function(_resized("bilinear", (5, 11), align_corners=True), _IMAGES),
    "interpolate.antialias": _function(_resized("bilinear", (5, 5), antialias=True), _IMAGES),
    "interpolate.bicubic": _function(_resized("bicubic", (12, 12)), _IMAGES),
    "interpolate.trilinear": _function(_resized("trilinear", (6, 6, 6)), _VOLUMES),
    "interpolate.area": _function(_resized("area", (3, 5)), _IMAGES),
    "grid_sample.bilinear": _function(_sampled("bilinear"), _IMAGES, ["normal", 8, 5, 6, 2]),
    "grid_sample.border": _function(_sampled("bilinear", "border", True), _IMAGES, ["normal", 8, 5, 6, 2]),
    "grid_sample.nearest": _function(_sampled("nearest"), _IMAGES, ["normal", 8, 5, 6, 2]),
    "grid_sample.bicubic": _function(_sampled("bicubic", "reflection"), _IMAGES, ["normal", 8, 5, 6, 2]),
    "affine_grid": _function(_affine, _IMAGES, ["normal", 8, 2, 3]),
    # Norms
    "BatchNorm1d": _module(lambda: nn.BatchNorm1d(16), _ROWS),
    "BatchNorm2d": _module(lambda: nn.BatchNorm2d(4), _IMAGES),
    "BatchNorm2d.average": _module(lambda: nn.BatchNorm2d(4, momentum=None), _IMAGES),
    "GroupNorm": _module(lambda: nn.GroupNorm(2, 4), _IMAGES),
    "InstanceNorm2d": _module(lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True), _IMAGES),
    "LayerNorm": _module(lambda: nn.LayerNorm(16), _ROWS),
    "RMSNorm": _module(lambda: nn.RMSNorm(16), _ROWS),
    "LocalResponseNorm": _module(lambda: nn.LocalResponseNorm(2), _IMAGES),
    "weight_norm": _module(lambda: _Normed(nn.utils.parametrizations.weight_norm), _ROWS),
    "spectral_norm": _module(lambda: _Normed(nn.utils.parametrizations.spectral_norm), _ROWS),
    "orthogonal": _module(lambda: _Normed(nn.utils.parametrizations.orthogonal), _ROWS),
    # Recurrent layers and transformers
    "RNN": _module(lambda: _Recurrent(nn.RNN), ["normal", 8, 5, 8]),
    "LSTM": _module(lambda: _Recurrent(nn.LSTM, num_layers=2, dropout=0.1), ["normal", 8, 5, 8]),
    "LSTM.bidirectional": _module(lambda: _Recurrent(nn.LSTM, bidirectional=True), ["normal", 8, 5, 8]),
    "GRU": _module(lambda: _Recurrent(nn.GRU), ["normal", 8, 5, 8]),
    "LSTMCell": _module(lambda: nn.LSTMCell(16, 8), _ROWS),
    "MultiheadAttention": _module(_SelfAttention, ["normal", 8, 6, 16]),
    "MultiheadAttention.dropout": _module(lambda: _SelfAttention(dropout=0.1, add_bias_kv=True), ["normal", 8, 6, 16]),
    "TransformerEncoderLayer": _module(lambda: nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), ["normal", 8, 6, 16]),
    "Transformer": _module(_Transformer, ["normal", 8, 6, 16], ["normal", 8, 6, 16]),
    # Activations
    "GELU": _module(lambda: nn.GELU("tanh"), _ROWS),
    "SiLU": _module(nn.SiLU, _ROWS),
    "Mish": _module(nn.Mish, _ROWS),
    "ELU": _module(nn.ELU, _ROWS),
    "CELU": _module(lambda: nn.CELU(0.5), _ROWS),
    "SELU": _module(nn.SELU, _ROWS),
    "PReLU": _module(lambda: nn.PReLU(4), _IMAGES),
    "RReLU": _module(nn.RReLU, _ROWS),
    "LeakyReLU": _module(nn.LeakyReLU, _ROWS),
    "Hardtanh": _module(nn.Hardtanh, _ROWS),
    "Hardswish": _module(nn.Hardswish, _ROWS),
    "Hardsigmoid": _module(nn.Hardsigmoid, _ROWS),
    "LogSigmoid": _module(nn.LogSigmoid, _ROWS),
    "Softplus": _module(lambda: nn.Softplus(2.0), _ROWS),
    "Softsign": _module(nn.Softsign, _ROWS),
    "Tanhshrink": _module(nn.Tanhshrink, _ROWS),
    "Softmin": _module(lambda: nn.Softmin(1), _ROWS),
    "Softmax2d": _module(nn.Softmax2d, _IMAGES),
    "GLU": _module(nn.GLU, _ROWS),
    "Threshold": _module(lambda: nn.Threshold(0.1, 0.5), _ROWS),
    "gumbel_softmax": _function(lambda x: F.gumbel_softmax(x, tau=0.5), _ROWS),
    # Dropout
    "Dropout": _module(lambda: nn.Dropout(0.2), _ROWS),
    "Dropout2d": _module(lambda: nn.Dropout2d(0.2), _IMAGES),
    "AlphaDropout": _module(lambda: nn.AlphaDropout(0.2), _ROWS),
    "FeatureAlphaDropout": _module(lambda: nn.FeatureAlphaDropout(0.2), _IMAGES),
    # Losses
    "L1Loss": _module(nn.L1Loss, _ROWS, _ROWS),
    "MSELoss": _module(nn.MSELoss, _ROWS, _ROWS),
    "SmoothL1Loss": _module(nn.SmoothL1Loss, _ROWS, _ROWS),
    "HuberLoss": _module(nn.HuberLoss, _ROWS, _ROWS),
    "CrossEntropyLoss": _module(lambda: nn.CrossEntropyLoss(label_smoothing=0.1), _ROWS, _CLASSES),
    "CrossEntropyLoss.weights": _module(lambda: nn.CrossEntropyLoss(torch.linspace(0.5, 2, 16, dtype=torch.float64), ignore_index=3), _ROWS, _CLASSES),
    "NLLLoss": _function(lambda x, y: F.nll_loss(x.log_softmax(1), y), _IMAGES, ["integers", 4, 8, 8, 8]),
    "BCELoss": _function(lambda x, y: F.binary_cross_entropy(x.sigmoid(), y.to(x.dtype)), _ROWS, _SIGNS),
    "BCEWithLogitsLoss": _function(lambda x, y: F.binary_cross_entropy_with_logits(x, y.to(x.dtype)), _ROWS, _SIGNS),
    "KLDivLoss": _function(lambda x, y: F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"), _ROWS, _ROWS),
    "PoissonNLLLoss": _module(nn.PoissonNLLLoss, _ROWS, _POSITIVE),
    "GaussianNLLLoss": _module(nn.GaussianNLLLoss, _ROWS, _ROWS, _POSITIVE),
    "HingeEmbeddingLoss": _function(lambda x, y: F.hinge_embedding_loss(x, _sign(y)), _ROWS, _SIGNS),
    "SoftMarginLoss": _function(lambda x, y: F.soft_margin_loss(x, _sign(y)), _ROWS, _SIGNS),
    "MultiMarginLoss": _module(nn.MultiMarginLoss, _ROWS, _CLASSES),
    "MultiLabelMarginLoss": _module(nn.MultiLabelMarginLoss, _ROWS, ["integers", 16, 8, 16]),
    "MultiLabelSoftMarginLoss": _function(lambda x, y: F.multilabel_soft_margin_loss(x, y.to(x.dtype)), _ROWS, _SIGNS),
    "MarginRankingLoss": _function(lambda x, y, s: F.margin_ranking_loss(x, y, _sign(s)), _ROWS, _ROWS, _SIGNS),
    "CosineEmbeddingLoss": _function(lambda x, y, s: F.cosine_embedding_loss(x, y, _sign(s)), _ROWS, _ROWS, ["integers", 2, 8]),
    "TripletMarginLoss": _function(_pulled, _ROWS, _ROWS),
    "CTCLoss": _function(_ctc, ["normal", 8, 12, 16], ["integers", 15, 8, 4]),
    "CTCLoss.lengths": _function(_ctc_lengths, ["normal", 8, 12, 16], ["integers", 15, 8, 4], ["integers", 4, 8], ["integers", 4, 8]),
    "AdaptiveLogSoftmaxWithLoss": _module(_AdaptiveSoftmax, _ROWS, _CLASSES),
    "PairwiseDistance": _module(nn.PairwiseDistance, _ROWS, _ROWS),
    "CosineSimilarity": _module(nn.CosineSimilarity, _ROWS, _ROWS),
    "cdist": _function(torch.cdist, ["normal", 8, 4, 6], ["normal", 8, 5, 6]),
    "pdist": _function(F.pdist, _ROWS),
    # Functions
    "normalize": _function(F.normalize, _ROWS),
    "logcumsumexp": _function(lambda x: x.logcumsumexp(1), _ROWS),
    "cumprod": _function(lambda x: x.cumprod(1), _ROWS),
    "cummax": _function(lambda x: x.cummax(1).values, _ROWS),
    "erfinv": _function(lambda x: (2 * x.sigmoid() - 1).mul(0.9).erfinv(), _ROWS),
    "lgamma": _function(lambda x: (x + 0.5).lgamma(), _POSITIVE),
    "rfft": _function(_spectrum, _ROWS),
    "irfft": _function(_filtered, _ROWS),
    "stft": _function(_spectrogram, ["normal", 8, 64]),
    "solve_triangular": _function(_solve, ["normal", 8, 4, 4]),
    "cholesky": _function(_cholesky, ["normal", 8, 4, 4]),
    "inverse": _function(lambda x: torch.linalg.inv(x + 6 * torch.eye(4, dtype=x.dtype)), ["normal", 8, 4, 4]),
    "logsumexp": _function(lambda x: x.logsumexp(1), _ROWS),
    "quantile": _function(lambda x: x.quantile(0.3, dim=1), _ROWS),
    "std_mean": _function(lambda x: torch.std_mean(x, 1), _ROWS),
    "einsum": _function(lambda x, y: torch.einsum("bi,bj->bij", x, y), _ROWS, _ROWS),
    "renorm": _function(lambda x: x.renorm(2, 0, 1.5), _ROWS),
    "scatter_reduce.amax": _function(lambda x, i: torch.zeros(8, 4, dtype=x.dtype).scatter_reduce(1, i, x, "amax", include_self=False), _ROWS, ["integers", 4, 8, 16]),
    "repeat_interleave": _function(lambda x: x.repeat_interleave(3, 1), _ROWS),
    "as_strided_scatter": _function(_written, _ROWS),
    "exponential": _function(_drawn, _ROWS),
    "randint": _function(lambda x: x.gather(1, torch.randint(0, 16, (8, 5))), _ROWS),
    "multinomial": _function(lambda x: x.gather(1, torch.multinomial(x.softmax(1), 3)), _ROWS),
    "randperm": _function(lambda x: x[:, torch.randperm(16)], _ROWS),
    # Values that Python looks at
    "checks": _function(_checked, _ROWS, _CLASSES),
    "boolean_index": _function(_labelled, _ROWS, _CLASSES),
}  # fmt: skip
