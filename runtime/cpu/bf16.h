//===- bf16.h - products of bf16 on any CPU ---------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// oneDNN multiplies bf16 with AVX-512 only. Elsewhere operands are widened and
// products computed in f32, which is what oneDNN accumulates in: the result has
// the same bound. Nothing but time is lost, and who asks is told.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CPU_BF16_H
#define TANDEM_RT_CPU_BF16_H

#include "cpu/block_product.h"
#include "tandem_rt/program.h"

namespace tandem::rt::cpu {

/// Whether oneDNN has products of bf16 on this CPU, with instructions for them
/// or without. The environment variable DNNL_MAX_CPU_ISA, if set, counts.
bool multipliesBf16();

/// A line for people if `program` multiplies bf16 and the CPU has no
/// instructions for it; else empty.
std::string noticeOfBf16(const Program &program);

/// `count` elements that lie one behind the other.
void widen(const Bf16 *source, float *destination, size_t count);
void narrow(const float *source, Bf16 *destination, size_t count);

} // namespace tandem::rt::cpu

#endif // TANDEM_RT_CPU_BF16_H
