//===- gemm.cpp - a product of matrices -----------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/gemm.h"
#include "core/text.h"
#include "core/verify.h"

namespace tandem::rt {

namespace {
constexpr size_t kMaxBatchDims = 8;

Status verifyTypes(const Gemm &op) {
  using T = ElementType;
  T in = op.inputType, out = op.outputType;
  bool known = (in == T::F64 && out == T::F64) ||
               (in == T::F32 && out == T::F32) ||
               (in == T::BF16 && (out == T::BF16 || out == T::F32));
  if (!known)
    return errorOf("gemm from ", elementName(in), " to ", elementName(out),
                   ", expected f64 to f64, f32 to f32, or bf16 to bf16 or f32");
  for (int64_t extent : {op.m, op.n, op.k})
    if (extent < 1 || extent > kMaxExtent)
      return errorOf("gemm has m ", op.m, ", n ", op.n, ", k ", op.k,
                     ", expected none below 1 or above ", kMaxExtent);
  if (op.batch.size() > kMaxBatchDims)
    return errorOf("gemm has ", op.batch.size(),
                   " batch dimensions, expected at most ", kMaxBatchDims);
  for (int64_t extent : op.batch)
    if (extent < 1 || extent > kMaxExtent)
      return errorOf("gemm has batch ", shapeText(op.batch),
                     ", expected no extent below 1 or above ", kMaxExtent);
  return Status::success();
}

Status verifyBeside(const Gemm &op) {
  if (op.readsPreActivation() && !op.preActivation)
    return errorOf("gemm has a gradient of GELU, expected a pre-activation");
  if (op.preActivation && op.postOp != PostOp::GeluTanh &&
      !op.readsPreActivation())
    return errorOf("gemm has a pre-activation, expected GELU by tanh or its "
                   "gradient");
  if (!op.batch.empty() && (op.preActivation || op.sumsA || op.sumsB))
    return errorOf("gemm has batch ", shapeText(op.batch),
                   " and a pre-activation or sums, expected no batch");
  for (const auto &[what, ref, elements] : besideOf(op))
    if (int64_t bytes = elements * elementBytes(op.outputType);
        ref && ref->bytes != bytes)
      return errorOf(what, " has ", ref->bytes, " bytes, expected ", bytes);
  return Status::success();
}
} // namespace

Strided stridedResult(const Gemm &gemm) {
  Shape extents = gemm.batch;
  extents.insert(extents.end(), {gemm.m, gemm.n});
  return {gemm.c.bytes, gemm.outputType, std::move(extents), gemm.stridesC};
}

std::array<BesideGemm, 4> besideOf(const Gemm &gemm) {
  return {{{"gemm bias", gemm.bias, gemm.n},
           {"gemm pre-activation", gemm.preActivation, gemm.m * gemm.n},
           {"gemm sums of a", gemm.sumsA, gemm.m},
           {"gemm sums of b", gemm.sumsB, gemm.n}}};
}

Status verifyGemm(const Gemm &op) {
  if (Status status = verifyTypes(op); !status.ok())
    return status;
  Shape a = op.batch, b = op.batch;
  a.insert(a.end(), {op.m, op.k}), b.insert(b.end(), {op.k, op.n});
  Status status = verifyStrided(
      "gemm operand a", {op.a.bytes, op.inputType, std::move(a), op.stridesA},
      /*isWritten=*/false);
  if (status.ok())
    status = verifyStrided(
        "gemm operand b", {op.b.bytes, op.inputType, std::move(b), op.stridesB},
        /*isWritten=*/false);
  if (status.ok())
    status =
        verifyStrided("gemm operand c", stridedResult(op), /*isWritten=*/true);
  return status.ok() ? verifyBeside(op) : status;
}

} // namespace tandem::rt
