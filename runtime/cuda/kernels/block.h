//===- block.h - threads of a block that work together ----------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For kernels whose threads share memory and exchange values. What is said of
// a warp is done by all of its 32 threads; on the emulated GPU by all of the
// block at once, each warp with its own.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_KERNELS_BLOCK_H
#define TANDEM_RT_CUDA_KERNELS_BLOCK_H

#include "gpu.h"

#ifdef __NVPTX__
#define TANDEM_BLOCK_KERNEL(name, body)                                        \
  extern "C" __attribute__((nvptx_kernel)) void name(uint64_t words) {         \
    tandem::rt::cuda::Gpu gpu;                                                 \
    body(tandem::rt::cuda::Words{gpu, words}, tandem::rt::cuda::Block{gpu});   \
  }
#else
#define TANDEM_BLOCK_KERNEL(name, body)                                        \
  extern "C" {                                                                 \
  extern const int32_t name##_shape[2];                                        \
  const int32_t name##_shape[2] = {1, 1};                                      \
  void name(tandem_rt_emulated_thread *thread, void *const *parameters) {      \
    tandem::rt::cuda::Gpu gpu{thread};                                         \
    body(tandem::rt::cuda::Words{gpu, *static_cast<const uint64_t *>(          \
                                          parameters[0])},                     \
         tandem::rt::cuda::Block{gpu});                                        \
  }                                                                            \
  }
#endif

namespace tandem::rt::cuda {

typedef float Float4 __attribute__((vector_size(16)));
using Word4 = BitsOf<16>::Type;

#ifdef __NVPTX__
extern "C" __attribute__((address_space(3), aligned(16))) char tandem_shared[];
#endif

/// A thread of a block; addresses of shared memory count from its begin.
struct Block {
  Gpu gpu;

  uint32_t lane() const { return thread() % 32; }
  uint32_t warp() const { return thread() / 32; }

#ifdef __NVPTX__
  uint32_t thread() const { return __nvvm_read_ptx_sreg_tid_x(); }
  int64_t number() const { return __nvvm_read_ptx_sreg_ctaid_x(); }
  void barrier() const { __syncthreads(); }

  template <typename T> static auto *shared(uint32_t at) {
    return reinterpret_cast<__attribute__((address_space(3))) T *>(
        tandem_shared + at);
  }
  template <typename T> T loadShared(uint32_t at) const {
    return *shared<const T>(at);
  }
  template <typename T> void storeShared(uint32_t at, T value) const {
    *shared<T>(at) = value;
  }

  /// Of the thread whose number differs in the bits of `distance`.
  float shuffle(float value, int distance) const {
    return __nvvm_shfl_sync_bfly_f32(~0u, value, distance, 31);
  }

  uint32_t shuffle(uint32_t value, int distance) const {
    return uint32_t(__nvvm_shfl_sync_bfly_i32(~0u, int(value), distance, 31));
  }
  int32_t minOfWarp(int32_t value) const {
    int32_t least;
    asm volatile("redux.sync.min.s32 %0, %1, 0xffffffff;"
                 : "=r"(least)
                 : "r"(value));
    return least;
  }

  static uint32_t sharedAddress(uint32_t at) {
    return uint32_t(uint64_t(shared<char>(at)));
  }
  template <bool IsTransposed>
  void loadMatrices(uint32_t *to, uint32_t at) const {
    uint32_t address = sharedAddress(at);
    if constexpr (IsTransposed)
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
                   "{%0, %1, %2, %3}, [%4];"
                   : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                   : "r"(address)
                   : "memory");
    else
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
                   "{%0, %1, %2, %3}, [%4];"
                   : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                   : "r"(address)
                   : "memory");
  }
  void mmaBf16(float *upper, float *lower, const uint32_t *a,
               const uint32_t *b) const {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(upper[0]), "+f"(upper[1]), "+f"(lower[0]), "+f"(lower[1])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
  void mmaTf32(float *upper, float *lower, const uint32_t *a,
               const uint32_t *b) const {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(upper[0]), "+f"(upper[1]), "+f"(lower[0]), "+f"(lower[1])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
  static uint32_t toTf32(float value) {
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return bits;
  }
  /// Two neighbours, the first in the low half; to the nearest, ties to even.
  static uint32_t packBf16(float first, float second) {
    uint32_t bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
    return bits;
  }
  /// By the instruction: to about 2^-22.
  static float exp2(float x) { return __nvvm_ex2_approx_ftz_f(x); }
  static float log2(float x) { return __nvvm_lg2_approx_f(x); }
#else
  uint32_t thread() const { return gpu.thread->thread[0]; }
  int64_t number() const { return gpu.thread->block[0]; }
  void barrier() const { gpu.thread->barrier(gpu.thread); }

  template <typename T> T *shared(uint32_t at, int kind) const {
    return static_cast<T *>(
        gpu.thread->access(gpu.thread, TANDEM_RT_EMULATED_SHARED + at,
                           sizeof(T), kind + TANDEM_RT_EMULATED_OF_SHARED));
  }
  template <typename T> T loadShared(uint32_t at) const {
    return *shared<const T>(at, TANDEM_RT_EMULATED_READ);
  }
  template <typename T> void storeShared(uint32_t at, T value) const {
    *shared<T>(at, TANDEM_RT_EMULATED_WRITE) = value;
  }
  uint32_t shuffle(uint32_t value, int distance) const {
    return gpu.thread->shuffle(gpu.thread, value, uint32_t(distance));
  }
  float shuffle(float value, int distance) const {
    return __builtin_bit_cast(
        float, shuffle(__builtin_bit_cast(uint32_t, value), distance));
  }
  template <bool IsTransposed>
  void loadMatrices(uint32_t *to, uint32_t at) const {
    gpu.thread->load_matrices(gpu.thread, TANDEM_RT_EMULATED_SHARED + at,
                              IsTransposed, to);
  }
  void mmaBf16(float *upper, float *lower, const uint32_t *a,
               const uint32_t *b) const {
    gpu.thread->mma(gpu.thread, TANDEM_RT_EMULATED_MMA_BF16, a, b, upper,
                    lower);
  }
  void mmaTf32(float *upper, float *lower, const uint32_t *a,
               const uint32_t *b) const {
    gpu.thread->mma(gpu.thread, TANDEM_RT_EMULATED_MMA_TF32, a, b, upper,
                    lower);
  }
  /// To the nearest of 10 bits, ties away from zero.
  static uint32_t toTf32(float value) {
    return (__builtin_bit_cast(uint32_t, value) + 0x1000) & ~0x1fffu;
  }
  static uint32_t packBf16(float first, float second) {
    return uint32_t(Wide<Bf16>::narrow(first).bits) |
           uint32_t(Wide<Bf16>::narrow(second).bits) << 16;
  }
  static float exp2(float x) { return __builtin_exp2f(x); }
  static float log2(float x) { return __builtin_log2f(x); }
#endif

  /// What threads have of one row, whose numbers differ in the bits below
  /// `lanes`.
  float sumOfRow(float value, int lanes) const {
    for (int distance = 1; distance < lanes; distance *= 2)
      value += shuffle(value, distance);
    return value;
  }
#ifndef __NVPTX__
  int32_t minOfWarp(int32_t value) const {
    for (int distance = 1; distance < 32; distance *= 2) {
      int32_t other = int32_t(shuffle(uint32_t(value), distance));
      value = other < value ? other : value;
    }
    return value;
  }
#endif
  int32_t maxOfWarp(int32_t value) const { return -minOfWarp(-value); }
  float maxOfRow(float value, int lanes) const {
    for (int distance = 1; distance < lanes; distance *= 2) {
      value = __builtin_fmaxf(value, shuffle(value, distance));
    }
    return value;
  }
};

/// Copies of 16 bytes from memory to shared memory that a thread has under way:
/// their places may be written at any time until it waits, and are there for
/// others behind the barrier that comes next.
class Copies {
public:
#ifdef __NVPTX__
  explicit Copies(Block) {}
  void add(uint32_t to, uint64_t from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :
                 : "r"(Block::sharedAddress(to)), "l"(from)
                 : "memory");
  }
  void wait() { asm volatile("cp.async.wait_all;" : : : "memory"); }

#else
  explicit Copies(Block block) : block(block) {}
  void add(uint32_t to, uint64_t from) {
    block.storeShared(to, ~Word4{}); // NaN
    pending[count++] = {to, from};
  }
  void wait() {
    for (int n = 0; n < count; ++n)
      block.storeShared(pending[n].to, block.gpu.load<Word4>(pending[n].from));
    count = 0;
  }

private:
  Block block;
  struct Copy {
    uint32_t to;
    uint64_t from;
  };
  Copy pending[64];
  int count = 0;
#endif
};

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_KERNELS_BLOCK_H
