//===- gpu.h - GPU builtins for own kernels ---------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One source for the GPU, by clang's NVPTX back end, and for the emulated one,
// by the compiler of the host. A kernel has one parameter: the address of its
// *words*, numbers of 64 bits, which are sizes, strides and addresses.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_KERNELS_GPU_H
#define TANDEM_RT_CUDA_KERNELS_GPU_H

#include <stdint.h>

#ifdef __NVPTX__
#define TANDEM_KERNEL(name, body)                                              \
  extern "C" __attribute__((nvptx_kernel)) void name(uint64_t words) {         \
    tandem::rt::cuda::Gpu gpu;                                                 \
    body(tandem::rt::cuda::Words{gpu, words});                                 \
  }
#else
#include "tandem_rt/emulated.h"
#define TANDEM_KERNEL(name, body)                                              \
  extern "C" {                                                                 \
  extern const int32_t name##_shape[2];                                        \
  const int32_t name##_shape[2] = {1, 0};                                      \
  void name(tandem_rt_emulated_thread *thread, void *const *parameters) {      \
    tandem::rt::cuda::Gpu gpu{thread};                                         \
    body(tandem::rt::cuda::Words{                                              \
        gpu, *static_cast<const uint64_t *>(parameters[0])});                  \
  }                                                                            \
  }
#endif

/// Before a loop over what is in registers, which have no index.
#ifdef __NVPTX__
#define TANDEM_UNROLL _Pragma("unroll")
#define TANDEM_ROLL _Pragma("unroll 1")
#else
#define TANDEM_UNROLL
#define TANDEM_ROLL
#endif

/// Of functions whose arguments are in registers.
#define TANDEM_INLINE [[gnu::always_inline]] inline

namespace tandem::rt::cuda {

/// What has a number of bytes.
template <int Bytes> struct BitsOf;
template <> struct BitsOf<1> {
  using Type = uint8_t;
};
template <> struct BitsOf<2> {
  using Type = uint16_t;
};
template <> struct BitsOf<4> {
  using Type = uint32_t;
};
template <> struct BitsOf<8> {
  using Type = uint64_t;
};
template <> struct BitsOf<16> {
  typedef uint32_t Type __attribute__((vector_size(16)));
};

/// A thread of the device.
struct Gpu {
#ifdef __NVPTX__
  int64_t index() const {
    return int64_t(__nvvm_read_ptx_sreg_ctaid_x()) *
               __nvvm_read_ptx_sreg_ntid_x() +
           __nvvm_read_ptx_sreg_tid_x();
  }
  int64_t count() const {
    return int64_t(__nvvm_read_ptx_sreg_nctaid_x()) *
           __nvvm_read_ptx_sreg_ntid_x();
  }
  /// As global memory, which instructions of their own read and write.
  template <typename T> static auto *place(uint64_t address) {
    return reinterpret_cast<__attribute__((address_space(1)))
                            typename BitsOf<sizeof(T)>::Type *>(address);
  }
  template <typename T> T load(uint64_t address) const {
    return __builtin_bit_cast(T, *place<T>(address));
  }
  template <typename T> void store(uint64_t address, T value) const {
    *place<T>(address) =
        __builtin_bit_cast(typename BitsOf<sizeof(T)>::Type, value);
  }
#else
  tandem_rt_emulated_thread *thread;

  int64_t index() const {
    return int64_t(thread->block[0]) * thread->block_size[0] +
           thread->thread[0];
  }
  int64_t count() const {
    return int64_t(thread->grid_size[0]) * thread->block_size[0];
  }
  template <typename T> T load(uint64_t address) const {
    return *static_cast<const T *>(
        thread->access(thread, address, sizeof(T), TANDEM_RT_EMULATED_READ));
  }
  template <typename T> void store(uint64_t address, T value) const {
    *static_cast<T *>(thread->access(thread, address, sizeof(T),
                                     TANDEM_RT_EMULATED_WRITE)) = value;
  }
#endif
};

/// Elements of a type in memory.
template <typename T> struct Array {
  [[no_unique_address]] Gpu gpu;
  uint64_t address;

  T operator[](int64_t index) const {
    return gpu.load<T>(address + uint64_t(index) * sizeof(T));
  }
  void set(int64_t index, T value) const {
    gpu.store<T>(address + uint64_t(index) * sizeof(T), value);
  }
};

/// What a kernel is given.
struct Words {
  [[no_unique_address]] Gpu gpu;
  uint64_t address;

  int64_t operator[](int64_t index) const {
    return gpu.load<int64_t>(address + uint64_t(index) * 8);
  }
  template <typename T> Array<T> array(int64_t index) const {
    return {gpu, uint64_t((*this)[index])};
  }
  double real(int64_t index) const {
    return __builtin_bit_cast(double, (*this)[index]);
  }
};

struct Bf16 {
  uint16_t bits;
};

/// The type in which elements are computed.
template <typename T> struct Wide {
  using Type = T;
  static Type widen(T value) { return value; }
  static T narrow(Type value) { return value; }
};
template <> struct Wide<Bf16> {
  using Type = float;
  static float widen(Bf16 value) {
    return __builtin_bit_cast(float, uint32_t(value.bits) << 16);
  }
  /// To the nearest, ties to even; a NaN stays one.
  static Bf16 narrow(float value) {
#ifdef __NVPTX__
    Bf16 narrowed;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(narrowed.bits) : "f"(value));
    return narrowed;
#else
    uint32_t bits = __builtin_bit_cast(uint32_t, value);
    if (value != value)
      return {uint16_t((bits >> 16) | 0x40)};
    return {uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
#endif
  }
};

/// e^x: 2^k e^r with |r| <= ln(2) / 2, and a Taylor series, whose terms end
/// below the last place.
template <typename T> T expOf(T x) {
  constexpr bool isWide = sizeof(T) == 8;
  constexpr int bias = isWide ? 1023 : 127, bits = isWide ? 52 : 23;
  if (x != x)
    return x;
  if (x > T(isWide ? 709.7 : 88.7))
    return T(1) / T(0);
  if (x < T(isWide ? -745 : -103))
    return T(0);
  T scaled = x * T(1.4426950408889634);
  int k = int(scaled < 0 ? scaled - T(0.5) : scaled + T(0.5));
  T high = isWide ? T(0.693147180369123816490) : T(0.693359375);
  T low = isWide ? T(1.90821492927058770002e-10) : T(-2.12194440e-4);
  T r = (x - T(k) * high) - T(k) * low;
  T sum = 1;
  for (int term = isWide ? 14 : 8; term > 0; --term)
    sum = T(1) + sum * r / T(term);
  // In two steps, as 2^k may be no normal number.
  auto power = [](int n) {
    if constexpr (isWide)
      return __builtin_bit_cast(double, uint64_t(n + bias) << bits);
    else
      return __builtin_bit_cast(float, uint32_t(n + bias) << bits);
  };
  return sum * power(k / 2) * power(k - k / 2);
}

/// ln(x) of a normal number above 0: 2 artanh((m - 1) / (m + 1)) + k ln(2).
template <typename T> T logOf(T x) {
  constexpr bool isWide = sizeof(T) == 8;
  int k;
  T m;
  if constexpr (isWide) {
    uint64_t bits = __builtin_bit_cast(uint64_t, x);
    k = int(bits >> 52) - 1023;
    m = __builtin_bit_cast(double,
                           (bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  } else {
    uint32_t bits = __builtin_bit_cast(uint32_t, x);
    k = int(bits >> 23) - 127;
    m = __builtin_bit_cast(float, (bits & 0x7fffffu) | 0x3f800000u);
  }
  if (m > T(1.4142135623730951)) {
    m /= 2;
    ++k;
  }
  T z = (m - 1) / (m + 1), square = z * z, sum = 0;
  for (int term = isWide ? 25 : 11; term > 0; term -= 2)
    sum = sum * square + T(1) / T(term);
  return T(2) * z * sum + T(k) * T(0.6931471805599453);
}

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_KERNELS_GPU_H
