//===- attention.cpp - shape of an attention ------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/attention.h"
#include "core/text.h"
#include "core/verify.h"

#include <cmath>

namespace tandem::rt {

namespace {
/// Checks the operands one after the other, up to the first that is wrong.
class Verifier {
public:
  explicit Verifier(const Attention &op) : op(op) {}
  Status verify();

private:
  void sizes();
  void options();
  void tensor(const char *name, const AttentionTensor &tensor,
              const Shape &extents, bool isWritten);
  void mask();
  void whole(const char *name, const BufferRef &ref, int64_t elements,
             ElementType type);
  void strided(const char *name, const Strided &operand, bool isWritten);
  template <typename... Parts> void fail(const Parts &...parts) {
    if (status.ok())
      status = errorOf("attention ", parts...);
  }

  const Attention &op;
  Status status;
};

void Verifier::sizes() {
  const ElementType t = op.type;
  if (t != ElementType::F64 && t != ElementType::F32 && t != ElementType::BF16)
    fail("of ", elementName(t), ", expected f64, f32 or bf16");
  for (int64_t size : {op.batch, op.heads, op.keyHeads, op.queries, op.keys,
                       op.width, op.valueWidth})
    if (size < 1 || size > kMaxExtent)
      fail("has a size of ", size, ", expected 1 to 2^40");
  if (op.keyHeads > 0 && op.heads % op.keyHeads)
    fail("has ", op.heads, " heads, expected a multiple of the ", op.keyHeads,
         " of the keys");
}

void Verifier::options() {
  if (op.hasBand() != op.positions.has_value())
    fail("has ", op.hasBand() ? "no " : "", "positions ",
         op.hasBand() ? "for its band" : "and no band");
  if (!op.dropout)
    return;
  double p = op.dropout->probability;
  if (!(p > 0 && p < 1))
    fail("drops with probability ", p,
         ", expected more than 0 and less than 1");
}

void Verifier::strided(const char *name, const Strided &operand,
                       bool isWritten) {
  if (status.ok())
    status =
        verifyStrided(concat("attention operand ", name), operand, isWritten);
}

void Verifier::tensor(const char *name, const AttentionTensor &tensor,
                      const Shape &extents, bool isWritten) {
  strided(name, stridedOf(tensor, extents, op.type), isWritten);
  if (status.ok() && extents[2] > 1 && tensor.strides[2] < extents[3])
    fail("operand ", name, " has rows ", tensor.strides[2],
         " elements apart, expected at least their width, ", extents[3]);
}

void Verifier::mask() {
  if (op.mask->type != ElementType::I1 && op.mask->type != op.type)
    fail("has a mask of ", elementName(op.mask->type), ", expected i1 or ",
         elementName(op.type));
  strided("mask",
          {op.mask->buffer.bytes, op.mask->type, scoreExtents(op),
           op.mask->strides},
          false);
}

void Verifier::whole(const char *name, const BufferRef &ref, int64_t elements,
                     ElementType type) {
  int64_t bytes = elements * elementBytes(type);
  if (ref.bytes != bytes)
    fail("operand ", name, " has ", ref.bytes, " bytes, expected ", bytes);
}

Status Verifier::verify() {
  sizes();
  options();
  if (!status.ok())
    return status;
  bool backward = op.gradients.has_value();
  int64_t rows = numElements({op.batch, op.heads, op.queries});
  tensor("query", op.query, queryExtents(op), false);
  tensor("key", op.key, keyExtents(op), false);
  tensor("value", op.value, valueExtents(op), false);
  tensor("output", op.output, outputExtents(op), !backward);
  whole("logsumexp", op.logsumexp, rows, wideType(op.type));
  if (op.mask)
    mask();
  if (op.positions)
    whole("positions", *op.positions, op.queries, ElementType::I64);
  if (op.dropout) {
    whole("rows", op.dropout->rows, rows, ElementType::I64);
    whole("seed", op.dropout->seed, 1, ElementType::I64);
    whole("step", op.dropout->step, 1, ElementType::I64);
  }
  if (backward) {
    tensor("gradient", op.gradients->output, outputExtents(op), false);
    tensor("query gradient", op.gradients->query, queryExtents(op), true);
    tensor("key gradient", op.gradients->key, keyExtents(op), true);
    tensor("value gradient", op.gradients->value, valueExtents(op), true);
  }
  return status;
}
} // namespace

uint64_t keepThreshold(double dropout) {
  return uint64_t(std::floor((1 - dropout) * 0x1p32));
}

Status verifyAttention(const Attention &attention) {
  return Verifier(attention).verify();
}

} // namespace tandem::rt
