//===- kernels.cpp - the runtime's own kernels ----------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What no library does, in the plainest way: a thread per element that is
// written, so that nothing depends on the order of threads.
//
//===----------------------------------------------------------------------===//

#include "gpu.h"
#include "words.h"

namespace tandem::rt::cuda {
namespace {

template <typename Body> void forEach(Gpu gpu, int64_t count, Body body) {
  for (int64_t i = gpu.index(); i < count; i += gpu.count())
    body(i);
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

template <typename T> void addUp(Words w) {
  using W = Wide<T>;
  int64_t columns = w[sum::Columns], sources = w[sum::Sources];
  int64_t destinations = w[sum::Destinations];
  forEach(w.gpu, w[sum::Rows] * columns, [&](int64_t i) {
    int64_t row = i / columns, column = i % columns;
    int64_t from = row * w[sum::SourceStride] + column;
    auto total = W::widen(w.array<T>(sum::Addresses)[from]);
    for (int64_t s = 1; s < sources; ++s)
      total += W::widen(w.array<T>(sum::Addresses + s)[from]);
    int64_t to = row * w[sum::DestinationStride] + column;
    for (int64_t d = 0; d < destinations; ++d)
      w.array<T>(sum::Addresses + sources + d).set(to, W::narrow(total));
  });
}

template <typename T> void copyBlock(Words w) {
  int64_t dims = w[copy::Dims];
  forEach(w.gpu, w[copy::Count], [&](int64_t i) {
    int64_t from = 0, to = 0;
    for (int64_t dim = dims; dim-- > 0;) {
      int64_t extent = w[copy::Extents + dim], at = i % extent;
      i /= extent;
      from += at * w[copy::Extents + dims + dim];
      to += at * w[copy::Extents + 2 * dims + dim];
    }
    w.array<T>(copy::Destination).set(to, w.array<T>(copy::Source)[from]);
  });
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

/// As Verdict has it.
template <typename T> int64_t judgeOne(T value) {
  auto wide = Wide<T>::widen(value);
  if (wide != wide)
    return 1;
  return wide - wide == 0 ? 0 : 2;
}
template <> int64_t judgeOne(uint8_t value) { return value ? 0 : 3; }

template <typename T> void judgeChunks(Words w) {
  int64_t count = w[judge::Count], chunks = w[judge::Chunks];
  auto values = w.array<T>(judge::Source);
  forEach(w.gpu, chunks, [&](int64_t chunk) {
    int64_t verdict = 0;
    int64_t end = count * (chunk + 1) / chunks;
    for (int64_t i = count * chunk / chunks; i < end && !verdict; ++i)
      verdict = judgeOne(values[i]);
    w.array<int64_t>(judge::Verdicts).set(chunk, verdict);
  });
}

void refuseStep(Words w) {
  if (w.gpu.index() != 0)
    return;
  int64_t verdict = 0;
  for (int64_t i = 0; i < w[refuse::Count] && !verdict; ++i)
    verdict = w.array<int64_t>(refuse::Verdicts)[i];
  auto own = w.array<int64_t>(refuse::Verdict);
  if (verdict && !own[0])
    own.set(0, verdict);
  bool isRefused = verdict != 0;
  for (int64_t i = 0; i < w[refuse::Reports]; ++i)
    isRefused |= w.array<int64_t>(refuse::Addresses + i)[0] != 0;
  if (isRefused)
    w.array<int64_t>(refuse::Refused).set(0, 1);
}

template <typename T> void copyRun(Words w, int64_t count) {
  auto from = w.array<T>(commit::Source), to = w.array<T>(commit::Destination);
  forEach(w.gpu, count, [&](int64_t i) { to.set(i, from[i]); });
}

void commitValues(Words w) {
  if (w.array<int64_t>(commit::Refused)[0])
    return;
  int64_t bytes = w[commit::Bytes];
  if ((bytes | w[commit::Source] | w[commit::Destination]) % 8 == 0)
    return copyRun<int64_t>(w, bytes / 8);
  copyRun<uint8_t>(w, bytes);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// By a series that ends below the last place of T where x is small, and by
/// a continued fraction elsewhere.
template <typename T> T erfOf(T x) {
  T absolute = x < 0 ? -x : x;
  if (absolute > T(6))
    return x < 0 ? T(-1) : T(1);
  if (absolute < T(2.5)) {
    T term = x, total = x;
    for (int n = 1; n < 60; ++n) {
      term *= -x * x / T(n);
      total += term / T(2 * n + 1);
    }
    return total * T(1.1283791670955126);
  }
  T fraction = 0;
  for (int n = 60; n > 0; --n)
    fraction = T(n) / 2 / (absolute + fraction);
  T rest = expOf(-x * x) / (absolute + fraction) * T(0.5641895835477563);
  return x < 0 ? rest - 1 : 1 - rest;
}

template <typename T> T tanhOf(T x) {
  T absolute = x < 0 ? -x : x;
  T e = expOf(-2 * absolute);
  T value = (1 - e) / (1 + e);
  return x < 0 ? -value : value;
}

/// The tanh in GELU.
template <typename T> T geluTanhOf(T x) {
  return tanhOf(T(0.7978845608028654) * (x + T(0.044715) * x * x * x));
}

template <typename T> T geluTanhSlope(T x) {
  T tanh = geluTanhOf(x);
  T inner = T(0.7978845608028654) * (1 + T(0.134145) * x * x);
  return (1 + tanh) / 2 + x / 2 * (1 - tanh * tanh) * inner;
}

/// `x` is the pre-activation, but where it is read.
template <typename T> T applyPostOp(int64_t op, T x, T preActivation) {
  switch (op) {
  case behind::GeluErf:
    return x / 2 * (1 + erfOf(x * T(0.7071067811865476)));
  case behind::GeluTanh:
    return x / 2 * (1 + geluTanhOf(x));
  case behind::Relu:
    return x > 0 || x != x ? x : T(0);
  case behind::GeluTanhGradient:
    return x * geluTanhSlope(preActivation);
  default:
    return x;
  }
}

template <typename In, typename Out> void multiply(Words w) {
  using WideIn = Wide<In>;
  using WideOut = Wide<Out>;
  using T = typename WideOut::Type;
  int64_t dims = w[gemm::BatchDims], m = w[gemm::M], n = w[gemm::N];
  int64_t k = w[gemm::K], each = dims + 2;
  int64_t strides = gemm::Batch + dims;
  forEach(w.gpu, w[gemm::Count] * m * n, [&](int64_t i) {
    int64_t column = i % n, row = i / n % m, batch = i / n / m;
    int64_t a = 0, b = 0, c = 0;
    for (int64_t dim = dims; dim-- > 0;) {
      int64_t extent = w[gemm::Batch + dim], at = batch % extent;
      batch /= extent;
      a += at * w[strides + dim];
      b += at * w[strides + each + dim];
      c += at * w[strides + 2 * each + dim];
    }
    a += row * w[strides + dims];
    b += column * w[strides + each + dims + 1];
    c += row * w[strides + 2 * each + dims] +
         column * w[strides + 2 * each + dims + 1];
    T total = 0;
    for (int64_t j = 0; j < k; ++j)
      total += T(WideIn::widen(
                   w.array<In>(gemm::A)[a + j * w[strides + dims + 1]])) *
               T(WideIn::widen(
                   w.array<In>(gemm::B)[b + j * w[strides + each + dims]]));
    total *= T(w.real(gemm::Alpha));
    auto result = w.array<Out>(gemm::C);
    if (w[gemm::Accumulate])
      total += WideOut::widen(result[c]);
    result.set(c, WideOut::narrow(total));
  });
}

template <typename T> void applyBehind(Words w) {
  using W = Wide<T>;
  int64_t dims = w[behind::BatchDims], m = w[behind::M], n = w[behind::N];
  int64_t strides = behind::Batch + dims;
  forEach(w.gpu, w[behind::Count] * m * n, [&](int64_t i) {
    int64_t column = i % n, row = i / n % m, batch = i / n / m;
    int64_t c = row * w[strides + dims] + column * w[strides + dims + 1];
    for (int64_t dim = dims; dim-- > 0;) {
      int64_t extent = w[behind::Batch + dim];
      c += batch % extent * w[strides + dim];
      batch /= extent;
    }
    auto made = w.array<T>(behind::C);
    auto x = W::widen(made[c]);
    if (w[behind::Bias])
      x += W::widen(w.array<T>(behind::Bias)[column]);
    auto before = x;
    if (w[behind::PreActivation]) {
      auto kept = w.array<T>(behind::PreActivation);
      if (w[behind::PostOp] == behind::GeluTanhGradient)
        before = W::widen(kept[i]);
      else
        kept.set(i, W::narrow(x));
    }
    made.set(c, W::narrow(applyPostOp(w[behind::PostOp], x, before)));
  });
}

template <typename In, typename Out> void addBeside(Words w) {
  forEach(w.gpu, w[beside::Count], [&](int64_t i) {
    typename Wide<Out>::Type total = 0;
    for (int64_t k = 0; k < w[beside::K]; ++k)
      total += Wide<In>::widen(w.array<In>(
          beside::Source)[i * w[beside::RowStride] + k * w[beside::Stride]]);
    w.array<Out>(beside::Sums).set(i, Wide<Out>::narrow(total));
  });
}

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

/// A tensor of five dimensions: batch, channels, three of space (input and
/// output), or channels out, channels in, three of space (weight).
struct Tensor5 {
  Tensor5(Words w, int number)
      : w(w), first(convolution::Tensors + number * convolution::TensorWords) {}
  int64_t extent(int dim) const { return w[first + 1 + dim]; }
  int64_t stride(int dim) const { return w[first + 6 + dim]; }
  int64_t place(int64_t a, int64_t b, const int64_t *x) const {
    int64_t sum = a * stride(0) + b * stride(1);
    for (int dim = 0; dim < 3; ++dim)
      sum += x[dim] * stride(2 + dim);
    return sum;
  }
  template <typename T> typename Wide<T>::Type get(int64_t place) const {
    return Wide<T>::widen(w.array<T>(first)[place]);
  }

  Words w;
  int64_t first;
};

/// Calls with the position in three dimensions of each of `extents`.
template <typename Body>
void forEachPosition(const Tensor5 &tensor, Body body) {
  int64_t x[3];
  for (x[0] = 0; x[0] < tensor.extent(2); ++x[0])
    for (x[1] = 0; x[1] < tensor.extent(3); ++x[1])
      for (x[2] = 0; x[2] < tensor.extent(4); ++x[2])
        body(x);
}

/// The position of the input that `y` of the output and `k` of the weight meet.
inline bool meet(Words w, const Tensor5 &input, const int64_t *y,
                 const int64_t *k, int64_t *x) {
  for (int dim = 0; dim < 3; ++dim) {
    x[dim] = w[convolution::Stride + dim] * y[dim] +
             w[convolution::Dilation + dim] * k[dim] -
             w[convolution::Padding + dim];
    if (x[dim] < 0 || x[dim] >= input.extent(2 + dim))
      return false;
  }
  return true;
}

/// The position of the output whose window has `x` of the input at `k`.
inline bool meetBack(Words w, const Tensor5 &output, const int64_t *x,
                     const int64_t *k, int64_t *y) {
  for (int dim = 0; dim < 3; ++dim) {
    int64_t at = x[dim] + w[convolution::Padding + dim] -
                 w[convolution::Dilation + dim] * k[dim];
    int64_t stride = w[convolution::Stride + dim];
    if (at < 0 || at % stride || at / stride >= output.extent(2 + dim))
      return false;
    y[dim] = at / stride;
  }
  return true;
}

/// Reads elements of type T, and makes such of type M.
template <typename T, typename M> void convolve(Words w) {
  using Sum = typename Wide<T>::Type;
  Tensor5 input(w, 0), weight(w, 1), output(w, 2);
  int64_t kind = w[convolution::Kind], groups = w[convolution::Groups];
  int64_t perGroupOut = weight.extent(0) / groups;
  int64_t perGroupIn = weight.extent(1);
  const Tensor5 &made = kind == 0 ? output : kind == 1 ? input : weight;
  int64_t count = 1;
  for (int dim = 0; dim < 5; ++dim)
    count *= made.extent(dim);
  forEach(w.gpu, count, [&](int64_t i) {
    int64_t at[5];
    for (int dim = 5; dim-- > 0;) {
      at[dim] = i % made.extent(dim);
      i /= made.extent(dim);
    }
    Sum total = 0;
    int64_t met[3];
    if (kind == 0) { // batch, channel out, y
      int64_t group = at[1] / perGroupOut;
      for (int64_t in = 0; in < perGroupIn; ++in)
        forEachPosition(weight, [&](const int64_t *k) {
          if (meet(w, input, at + 2, k, met))
            total +=
                input.get<T>(input.place(at[0], group * perGroupIn + in, met)) *
                weight.get<T>(weight.place(at[1], in, k));
        });
    } else if (kind == 1) { // batch, channel in, x
      int64_t group = at[1] / perGroupIn, in = at[1] % perGroupIn;
      for (int64_t o = 0; o < perGroupOut; ++o)
        forEachPosition(weight, [&](const int64_t *k) {
          int64_t out = group * perGroupOut + o;
          if (meetBack(w, output, at + 2, k, met))
            total += output.get<T>(output.place(at[0], out, met)) *
                     weight.get<T>(weight.place(out, in, k));
        });
    } else { // channel out, channel in of the group, k
      int64_t group = at[0] / perGroupOut;
      for (int64_t n = 0; n < output.extent(0); ++n)
        forEachPosition(output, [&](const int64_t *y) {
          if (meet(w, input, y, at + 2, met))
            total +=
                input.get<T>(input.place(n, group * perGroupIn + at[1], met)) *
                output.get<T>(output.place(n, at[0], y));
        });
    }
    w.array<M>(made.first)
        .set(made.place(at[0], at[1], at + 2), Wide<M>::narrow(total));
  });
}

} // namespace
} // namespace tandem::rt::cuda

#define TANDEM_SUM(suffix, type)                                               \
  TANDEM_KERNEL(tandem_sum_##suffix, tandem::rt::cuda::addUp<type>)
TANDEM_SUM(f64, double)
TANDEM_SUM(f32, float)
TANDEM_SUM(bf16, tandem::rt::cuda::Bf16)
TANDEM_SUM(i64, uint64_t)
TANDEM_SUM(i32, uint32_t)
TANDEM_SUM(i8, uint8_t)

#define TANDEM_COPY(bytes, type)                                               \
  TANDEM_KERNEL(tandem_copy_##bytes, tandem::rt::cuda::copyBlock<type>)
TANDEM_COPY(8, uint64_t)
TANDEM_COPY(4, uint32_t)
TANDEM_COPY(2, uint16_t)
TANDEM_COPY(1, uint8_t)

#define TANDEM_GEMM(suffix, ...)                                               \
  TANDEM_KERNEL(tandem_gemm_##suffix,                                          \
                (tandem::rt::cuda::multiply<__VA_ARGS__>))                     \
  TANDEM_KERNEL(tandem_beside_##suffix,                                        \
                (tandem::rt::cuda::addBeside<__VA_ARGS__>))
TANDEM_GEMM(f64_f64, double, double)
TANDEM_GEMM(f32_f32, float, float)
TANDEM_GEMM(bf16_bf16, tandem::rt::cuda::Bf16, tandem::rt::cuda::Bf16)
TANDEM_GEMM(bf16_f32, tandem::rt::cuda::Bf16, float)

#define TANDEM_BEHIND(suffix, type)                                            \
  TANDEM_KERNEL(tandem_behind_##suffix, tandem::rt::cuda::applyBehind<type>)
TANDEM_BEHIND(f64, double)
TANDEM_BEHIND(f32, float)
TANDEM_BEHIND(bf16, tandem::rt::cuda::Bf16)

#define TANDEM_CONVOLUTION(suffix, ...)                                        \
  TANDEM_KERNEL(tandem_convolution_##suffix,                                   \
                (tandem::rt::cuda::convolve<__VA_ARGS__>))
TANDEM_CONVOLUTION(f64_f64, double, double)
TANDEM_CONVOLUTION(f32_f32, float, float)
TANDEM_CONVOLUTION(bf16_bf16, tandem::rt::cuda::Bf16, tandem::rt::cuda::Bf16)
TANDEM_CONVOLUTION(bf16_f32, tandem::rt::cuda::Bf16, float)

TANDEM_KERNEL(tandem_judge_f32, tandem::rt::cuda::judgeChunks<float>)
TANDEM_KERNEL(tandem_judge_f64, tandem::rt::cuda::judgeChunks<double>)
TANDEM_KERNEL(tandem_judge_bf16,
              tandem::rt::cuda::judgeChunks<tandem::rt::cuda::Bf16>)
TANDEM_KERNEL(tandem_judge_i1, tandem::rt::cuda::judgeChunks<uint8_t>)
TANDEM_KERNEL(tandem_refuse, tandem::rt::cuda::refuseStep)
TANDEM_KERNEL(tandem_commit, tandem::rt::cuda::commitValues)
