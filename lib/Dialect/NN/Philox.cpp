//===- Philox.cpp - counter-based random bits -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
// Everything is an i64 that holds 32 bits, since the vectoriser multiplies
// 32 by 32 bits to 64 only in that form.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "tandem/Dialect/NN/Scalar.h"
#include <array>

using namespace mlir;

namespace {
constexpr int64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr int64_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

struct Bits {
  OpBuilder &builder;
  Location loc;

  Value constant(int64_t value) {
    return arith::ConstantIntOp::create(builder, loc, builder.getI64Type(),
                                        value);
  }
  Value bitAnd(Value value, int64_t mask) {
    return arith::AndIOp::create(builder, loc, value, constant(mask));
  }
  Value shift(Value value, int64_t by) {
    return arith::ShRUIOp::create(builder, loc, value, constant(by));
  }
  Value low(Value value) { return bitAnd(value, 0xFFFFFFFF); }
  Value high(Value value) { return shift(value, 32); }
  Value mul(Value value, int64_t factor) {
    return arith::MulIOp::create(builder, loc, value, constant(factor));
  }
  Value exclusiveOr(Value a, Value b, Value c) {
    return arith::XOrIOp::create(builder, loc,
                                 arith::XOrIOp::create(builder, loc, a, b), c);
  }
  Value addLow(Value value, int64_t term) {
    return low(arith::AddIOp::create(builder, loc, value, constant(term)));
  }
  Value select(Value index, int64_t equal, Value then, Value otherwise) {
    Value is = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                     index, constant(equal));
    return arith::SelectOp::create(builder, loc, is, then, otherwise);
  }
};
} // namespace

Value tandem::nn::Scalar::philox(Value index, Value seed, Value step,
                                 Value ordinal) {
  Bits b{this->b, loc};
  Value block = b.shift(index, 2);
  std::array<Value, 4> counter = {b.low(block), b.high(block), b.low(ordinal),
                                  b.low(step)};
  Value key0 = b.low(seed), key1 = b.high(seed);
  for (int round = 0; round < kRounds; ++round) {
    Value product0 = b.mul(counter[0], kMultiplier0);
    Value product1 = b.mul(counter[2], kMultiplier1);
    counter = {
        b.exclusiveOr(b.high(product1), counter[1], key0), b.low(product1),
        b.exclusiveOr(b.high(product0), counter[3], key1), b.low(product0)};
    key0 = b.addLow(key0, kWeyl0);
    key1 = b.addLow(key1, kWeyl1);
  }
  Value lane = b.bitAnd(index, 3);
  Value result = b.select(lane, 2, counter[2], counter[3]);
  result = b.select(lane, 1, counter[1], result);
  return b.select(lane, 0, counter[0], result);
}
