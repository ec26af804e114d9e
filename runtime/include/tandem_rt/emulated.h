//===- emulated.h - kernels of the emulated GPU -----------------*- C -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel for the emulated GPU is one thread's code, made for the host:
//
//   extern "C" void name(tandem_rt_emulated_thread *thread,
//                        void *const *parameters);
//   extern "C" const int32_t name_shape[2]; // parameters, whether it waits
//
// Each parameter has 8 bytes; `parameters` are their addresses. Addresses of
// the device mean nothing to the host: every access asks for the host's.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_EMULATED_H
#define TANDEM_RT_EMULATED_H

#include <stdint.h>

#define TANDEM_RT_EMULATED_SHAPE "_shape"
/// Where shared memory begins in its own addresses. Not 0, which no compiler
/// takes for an address.
#define TANDEM_RT_EMULATED_SHARED 4096

#ifdef __cplusplus
extern "C" {
#endif

/// Of an access, added up.
enum {
  TANDEM_RT_EMULATED_READ = 0,
  TANDEM_RT_EMULATED_WRITE = 1,
  TANDEM_RT_EMULATED_OF_SHARED = 2
};

/// Of a product of a warp: what its elements are.
enum {
  TANDEM_RT_EMULATED_MMA_BF16 = 0, ///< mma.m16n8k16
  TANDEM_RT_EMULATED_MMA_TF32 = 1  ///< mma.m16n8k8
};

typedef struct tandem_rt_emulated_thread {
  uint32_t thread[3], block[3], block_size[3], grid_size[3];
  /// The host's address of `bytes` bytes at an address of the device, or of
  /// the block's shared memory. Does not return if they may not be touched.
  void *(*access)(struct tandem_rt_emulated_thread *thread, uint64_t address,
                  int64_t bytes, int32_t kind);
  /// Returns when all threads of the block have come here.
  void (*barrier)(struct tandem_rt_emulated_thread *thread);
  /// The value that the thread of the warp has whose number differs in the bits
  /// of `distance`. All threads of the block must come here.
  uint32_t (*shuffle)(struct tandem_rt_emulated_thread *thread, uint32_t value,
                      uint32_t distance);
  /// Adds a product of the warp's fragments (PTX ISA, mma) to this thread's
  /// elements of two rows, two each. All threads of the block must come here.
  void (*mma)(struct tandem_rt_emulated_thread *thread, int32_t kind,
              const uint32_t *a, const uint32_t *b, float *upper, float *lower);
  /// As ldmatrix.x4 of 16 bits: this thread has the address of the row with its
  /// number among those of four matrices, and gets what is its of them.
  void (*load_matrices)(struct tandem_rt_emulated_thread *thread,
                        uint64_t address, int32_t is_transposed, uint32_t *to);
} tandem_rt_emulated_thread;

typedef void (*tandem_rt_emulated_kernel)(tandem_rt_emulated_thread *thread,
                                          void *const *parameters);

#ifdef __cplusplus
}
#endif

#endif // TANDEM_RT_EMULATED_H
