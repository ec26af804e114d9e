//===- words.h - arguments of own kernels -----------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The numbers of words by name, for host and device alike. Strides are in
// elements, addresses are the device's; 0 is none.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_KERNELS_WORDS_H
#define TANDEM_RT_CUDA_KERNELS_WORDS_H

namespace tandem::rt::cuda {

/// `tandem_sum_TYPE`: of `columns` elements in each of `rows` rows, sources
/// are added in their order, and the sum goes to each destination.
namespace sum {
enum { Rows, Columns, SourceStride, DestinationStride, Sources, Destinations };
/// Here begin the addresses of sources, then those of destinations.
enum { Addresses = 6 };
} // namespace sum

/// `tandem_copy_BYTES`: a block of `Dims` extents by strides.
namespace copy {
enum { Dims, Count, Source, Destination };
/// Here begin extents, strides of the source, those of the destination.
enum { Extents = 4 };
} // namespace copy

/// `tandem_judge_TYPE`: verdicts (core/verdict.h) of `Chunks` pieces of
/// `Count` elements, one behind the other, words of 64 bits.
namespace judge {
enum { Count, Chunks, Source, Verdicts, End };
} // namespace judge

/// `tandem_refuse`: the first of `Count` verdicts that is not 0 becomes
/// `Verdict`, if that is 0; with it, or with a report that is not 0, `Refused`
/// becomes 1.
namespace refuse {
enum { Count, Verdicts, Verdict, Refused, Reports };
/// Here begin the addresses of reports.
enum { Addresses = 5 };
} // namespace refuse

/// `tandem_commit`: `Bytes` bytes are copied unless `Refused` is set.
namespace commit {
enum { Bytes, Source, Destination, Refused, End };
} // namespace commit

/// `tandem_gemm_IN_OUT`: a product as `Gemm` has it, without what is behind and
/// beside it.
namespace gemm {
enum { BatchDims, Count, M, N, K, Alpha, Accumulate, A, B, C };
/// Here begin extents of the batch, then strides of a, b and c, with those of
/// their matrices last.
enum { Batch = 10 };
} // namespace gemm

/// `tandem_behind_TYPE`: what `Gemm` has behind a product, which lies in C.
namespace behind {
/// As PostOp counts them.
enum { None, GeluErf, GeluTanh, Relu, GeluTanhGradient };
enum { BatchDims, Count, M, N, PostOp, C, Bias, PreActivation };
/// Here begin extents of the batch, then strides of c.
enum { Batch = 8 };
} // namespace behind

/// `tandem_beside_IN_OUT`: sums of each of `Count` rows of K elements.
namespace beside {
enum { Count, K, Source, RowStride, Stride, Sums, End };
} // namespace beside

/// `tandem_attention_forward_TYPE` and `..._queries_TYPE`, `..._keys_TYPE`, the
/// gradients of queries, and of keys and values: as `Attention` has it.
/// `..._totals_TYPE` goes before gradients where masks are added.
namespace attention {
enum {
  NumBatches,
  Heads,
  KeyHeads,
  Queries,
  Keys,
  Width,
  ValueWidth,
  Scale,
  Before,
  After,
  LogSumExp,
  Mask,
  MaskIsTruth,
  MaskStrides, // 4
  Positions = MaskStrides + 4,
  DropoutThreshold, // of 2^32; with it the factor of what is kept
  DropoutFactor,
  DropoutOrdinal,
  DropoutRows,
  DropoutSeed,
  DropoutStep,
  // An address and the strides of batch, head and row each.
  Query,
  Key = Query + 4,
  Value = Key + 4,
  Output = Value + 4,
  OutputGradient = Output + 4,
  QueryGradient = OutputGradient + 4,
  KeyGradient = QueryGradient + 4,
  ValueGradient = KeyGradient + 4,
  // Of kernels by tiles: whether rows may be read by 16 bytes, and where the
  // sums of outputs times their gradients are, of f32 (batch, heads, queries).
  IsWide = ValueGradient + 4,
  Deltas,
  // Per row a maximum and a logarithm, whose sum is the log-sum-exp: 0 and this
  // itself, unless it is so large that it has lost digits; nothing where no
  // mask is added. They and scores are in these units, of e or of 2.
  Totals,
  Unit,
  LargeLogSumExp,
  End
};

/// A block by tiles; a warp has 16 or 32 of its rows.
inline constexpr int kTileWarps = 4, kTileThreads = 128;
/// What is kept of queries in shared memory, of two tiles at a time.
constexpr int factBytes(int queries) { return 28 * queries; }
/// Of a row in shared memory: with 16 more, neighbours are in other banks.
constexpr int rowBytes(int width, int elementBytes) {
  return width * elementBytes + 16;
}
/// Of a warp, without tensor cores.
constexpr int scratchBytes(bool isFma, int tile) {
  return isFma ? 16 * (tile + 4) * 4 : 0;
}
/// How many tiles of columns are there at a time: while one is multiplied the
/// next one comes. Of wider elements two would be more than any GPU has.
constexpr int numStages(int elementBytes) { return elementBytes == 2 ? 2 : 1; }
/// With `resident` tensors of `rows` rows, and two of `tile` at a time.
constexpr int sharedBytes(int width, int elementBytes, int rows, int tile,
                          int resident, int scratchOfWarp) {
  return 2 * factBytes(rows) +
         (resident * rows + 2 * numStages(elementBytes) * tile) *
             rowBytes(width, elementBytes) +
         kTileWarps * scratchOfWarp;
}
} // namespace attention

/// Kernels by tiles, `tandem_attention_forward_NAME_WIDTH` and so on: the name
/// of the type, the widest rows, how many rows a block has and how many columns
/// it goes over at a time, which their registers decide: of the output, of the
/// gradient of queries, and of those of keys and values; and the way to
/// multiply (tiles.h).
#define TANDEM_ATTENTION_BF16(F)                                               \
  F(bf16, 64, 64, 64, 64, 32, 64, 32, MmaBf16)                                 \
  F(bf16, 128, 128, 32, 64, 32, 64, 32, MmaBf16)
#define TANDEM_ATTENTION_F32(F)                                                \
  F(f32, 64, 64, 32, 64, 32, 64, 32, Fma)                                      \
  F(f32, 128, 64, 16, 64, 16, 64, 8, Fma)
#define TANDEM_ATTENTION_TF32(F)                                               \
  F(tf32, 64, 64, 32, 64, 32, 64, 16, MmaTf32)                                 \
  F(tf32, 128, 64, 16, 64, 16, 64, 16, MmaTf32)
#define TANDEM_ATTENTION_TILES(F)                                              \
  TANDEM_ATTENTION_BF16(F)                                                     \
  TANDEM_ATTENTION_F32(F)                                                      \
  TANDEM_ATTENTION_TF32(F)

/// `tandem_convolution_TYPE_MADE`: as `Convolution` has it, in three
/// dimensions.
namespace convolution {
enum {
  Kind,
  Groups,
  Stride,                 // 3
  Padding = Stride + 3,   // 3
  Dilation = Padding + 3, // 3
  // Of input, weight and output: the address, five extents, five strides.
  Tensors = Dilation + 3,
  TensorWords = 11,
  End = Tensors + 3 * TensorWords
};
} // namespace convolution

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_KERNELS_WORDS_H
