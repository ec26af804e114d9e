//===- bf16.cpp - products of bf16 on any CPU -----------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cpu/bf16.h"

#include <oneapi/dnnl/dnnl.hpp>

namespace tandem::rt::cpu {

static bool hasAll(dnnl_cpu_isa_t wanted) {
  return (dnnl_get_effective_cpu_isa() & wanted) == wanted;
}

bool multipliesBf16() { return hasAll(dnnl_cpu_isa_avx512_core); }

static bool isOfBf16(const Command &command) {
  if (const auto *gemm = std::get_if<Gemm>(&command.operation))
    return gemm->inputType == ElementType::BF16;
  if (const auto *convolution = std::get_if<Convolution>(&command.operation))
    return convolution->type == ElementType::BF16;
  const auto *attention = std::get_if<Attention>(&command.operation);
  return attention && attention->type == ElementType::BF16;
}

std::string noticeOfBf16(const Program &program) {
  if (hasAll(dnnl_cpu_isa_avx512_core_bf16))
    return {};
  for (const RankProgram &rank : program.rankPrograms)
    for (const Command *command : rank.listing())
      if (isOfBf16(*command))
        return "this CPU has no instructions for bf16 (AVX512_BF16): products "
               "of bf16 are computed in f32, and take longer than in f32";
  return {};
}

void widen(const Bf16 *source, float *destination, size_t count) {
  for (size_t i = 0; i < count; ++i)
    destination[i] = bf16ToFloat(source[i].bits);
}

void narrow(const float *source, Bf16 *destination, size_t count) {
  for (size_t i = 0; i < count; ++i)
    destination[i].bits = floatToBf16(source[i]);
}

} // namespace tandem::rt::cpu
