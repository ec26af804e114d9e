//===- Elementwise.cpp - elementwise operators ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Evaluators.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>
#include <functional>

using namespace mlir;
using namespace tandem::nn;

namespace tandem::reference {

std::vector<int64_t> mapBroadcast(ArrayRef<int64_t> from,
                                  ArrayRef<int64_t> to) {
  size_t missing = to.size() - from.size();
  SmallVector<int64_t, 4> strides(to.size(), 0);
  for (auto [dim, stride] : llvm::enumerate(getStrides(from)))
    if (from[dim] != 1)
      strides[missing + dim] = stride;
  std::vector<int64_t> sources(getNumElements(to));
  forEachIndex(to, [&](ArrayRef<int64_t> index, int64_t linear) {
    int64_t source = 0;
    for (auto [position, stride] : llvm::zip(index, strides))
      source += position * stride;
    sources[linear] = source;
  });
  return sources;
}

//===----------------------------------------------------------------------===//
// Scalars. Where integers mean something else than doubles there is an
// overload.
//===----------------------------------------------------------------------===//

static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
static double normalCdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2)); }

static double applyGelu(double x, bool isTanh) {
  if (!isTanh)
    return x * normalCdf(x);
  double inner = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(inner));
}

static double applyGeluBackward(double grad, double x, bool isTanh) {
  if (!isTanh)
    return grad *
           (normalCdf(x) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI));
  double scale = std::sqrt(2 / M_PI);
  double t = std::tanh(scale * (x + 0.044715 * x * x * x));
  double slope = scale * (1 + 3 * 0.044715 * x * x);
  return grad * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope);
}

using FloatUnary = std::function<double(double)>;
using IntegerUnary = std::function<int64_t(int64_t)>;
using FloatBinary = std::function<double(double, double)>;
using IntegerBinary = std::function<int64_t(int64_t, int64_t)>;

/// The function of one double that `op` is; null if it is none.
static FloatUnary getFloatUnary(Operation *op) {
  using Result = FloatUnary;
  return TypeSwitch<Operation *, Result>(op)
      .Case([](NegOp) { return [](double x) { return -x; }; })
      .Case([](AbsOp) { return [](double x) { return std::fabs(x); }; })
      .Case([](ExpOp) { return [](double x) { return std::exp(x); }; })
      .Case([](LogOp) { return [](double x) { return std::log(x); }; })
      .Case([](Exp2Op) { return [](double x) { return std::exp2(x); }; })
      .Case([](Log2Op) { return [](double x) { return std::log2(x); }; })
      .Case([](Log10Op) { return [](double x) { return std::log10(x); }; })
      .Case([](Log1pOp) { return [](double x) { return std::log1p(x); }; })
      .Case([](Expm1Op) { return [](double x) { return std::expm1(x); }; })
      .Case([](SqrtOp) { return [](double x) { return std::sqrt(x); }; })
      .Case([](RsqrtOp) { return [](double x) { return 1 / std::sqrt(x); }; })
      .Case([](ReciprocalOp) { return [](double x) { return 1 / x; }; })
      .Case([](SinOp) { return [](double x) { return std::sin(x); }; })
      .Case([](CosOp) { return [](double x) { return std::cos(x); }; })
      .Case([](TanhOp) { return [](double x) { return std::tanh(x); }; })
      .Case([](SigmoidOp) { return [](double x) { return sigmoid(x); }; })
      .Case([](ErfOp) { return [](double x) { return std::erf(x); }; })
      .Case([](ErfcOp) { return [](double x) { return std::erfc(x); }; })
      .Case([](SignOp) {
        // Of NaN 0, as PyTorch has it.
        return [](double x) { return double((x > 0) - (x < 0)); };
      })
      .Case([](FloorOp) { return [](double x) { return std::floor(x); }; })
      .Case([](CeilOp) { return [](double x) { return std::ceil(x); }; })
      .Case([](RoundOp) { return [](double x) { return std::nearbyint(x); }; })
      .Case(
          [](LogicalNotOp) { return [](double x) { return double(x == 0); }; })
      .Case([](ReluOp) { return [](double x) { return x <= 0 ? 0.0 : x; }; })
      .Case([](SiluOp) { return [](double x) { return x * sigmoid(x); }; })
      .Case([](GeluOp gelu) {
        bool isTanh = gelu.getApproximate() == Approximate::Tanh;
        return [=](double x) { return applyGelu(x, isTanh); };
      })
      .Default([](Operation *) { return nullptr; });
}

/// Unsigned arithmetic, because a signed overflow is undefined in C++.
static int64_t negate(int64_t x) {
  return static_cast<int64_t>(-static_cast<uint64_t>(x));
}

static IntegerUnary getIntegerUnary(Operation *op) {
  using Result = IntegerUnary;
  return TypeSwitch<Operation *, Result>(op)
      .Case([](NegOp) { return [](int64_t x) { return negate(x); }; })
      .Case(
          [](AbsOp) { return [](int64_t x) { return x < 0 ? negate(x) : x; }; })
      .Case([](SignOp) {
        return [](int64_t x) { return int64_t(x > 0) - int64_t(x < 0); };
      })
      .Case<FloorOp, CeilOp, RoundOp>(
          [](auto) { return [](int64_t x) { return x; }; })
      .Case([](LogicalNotOp) {
        return [](int64_t x) { return int64_t(x == 0); };
      })
      .Case([](ReluOp) {
        return [](int64_t x) { return std::max<int64_t>(x, 0); };
      })
      .Default([](Operation *) { return nullptr; });
}

static double floorRemainder(double x, double y) {
  double rest = std::fmod(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

/// The floor of the exact quotient, since the floor of the rounded one can be
/// one too large (-1.5 / 0.3). By zero, and of infinities, as
/// `torch.floor_divide`.
static double floorQuotient(double x, double y) {
  if (y == 0)
    return x / y;
  double rest = std::fmod(x, y);
  double truncated = std::nearbyint((x - rest) / y);
  return rest != 0 && (rest < 0) != (y < 0) ? truncated - 1 : truncated;
}

static double larger(double x, double y) {
  return std::isnan(x) || x > y ? x : y;
}

static double smaller(double x, double y) {
  return std::isnan(x) || x < y ? x : y;
}

static FloatBinary getFloatBinary(Operation *op) {
  using Result = FloatBinary;
  return TypeSwitch<Operation *, Result>(op)
      .Case([](AddOp) { return [](double x, double y) { return x + y; }; })
      .Case([](SubOp) { return [](double x, double y) { return x - y; }; })
      .Case([](MulOp) { return [](double x, double y) { return x * y; }; })
      .Case([](DivOp) { return [](double x, double y) { return x / y; }; })
      .Case([](PowOp) {
        return [](double x, double y) { return std::pow(x, y); };
      })
      .Case([](MaximumOp) {
        return [](double x, double y) { return larger(x, y); };
      })
      .Case([](MinimumOp) {
        return [](double x, double y) { return smaller(x, y); };
      })
      .Case([](RemainderOp) {
        return [](double x, double y) { return floorRemainder(x, y); };
      })
      .Case([](FloorDivideOp) {
        return [](double x, double y) { return floorQuotient(x, y); };
      })
      .Case([](Atan2Op) {
        return [](double x, double y) { return std::atan2(x, y); };
      })
      .Case([](CopysignOp) {
        return [](double x, double y) { return std::copysign(x, y); };
      })
      .Case([](GeluBackwardOp gelu) {
        bool isTanh = gelu.getApproximate() == Approximate::Tanh;
        return
            [=](double x, double y) { return applyGeluBackward(x, y, isTanh); };
      })
      .Case([](SiluBackwardOp) {
        return [](double x, double y) {
          return x * sigmoid(y) * (1 + y * (1 - sigmoid(y)));
        };
      })
      .Default([](Operation *) { return nullptr; });
}

static int64_t truncatedDivision(int64_t x, int64_t y) {
  return y == -1 ? negate(x) : x / y;
}

static int64_t floorDivision(int64_t x, int64_t y) {
  int64_t quotient = truncatedDivision(x, y);
  bool isInexact = y != -1 && x % y != 0;
  return isInexact && (x < 0) != (y < 0) ? quotient - 1 : quotient;
}

static int64_t power(int64_t base, int64_t exponent) {
  if (exponent < 0)
    return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1;
  for (uint64_t factor = base; exponent > 0; exponent /= 2, factor *= factor)
    if (exponent % 2)
      result *= factor;
  return static_cast<int64_t>(result);
}

static uint64_t wide(int64_t value) { return static_cast<uint64_t>(value); }

/// Division by zero is the caller's concern.
static IntegerBinary getIntegerBinary(Operation *op) {
  using Result = IntegerBinary;
  return TypeSwitch<Operation *, Result>(op)
      .Case([](AddOp) {
        return [](int64_t x, int64_t y) { return int64_t(wide(x) + wide(y)); };
      })
      .Case([](SubOp) {
        return [](int64_t x, int64_t y) { return int64_t(wide(x) - wide(y)); };
      })
      .Case([](MulOp) {
        return [](int64_t x, int64_t y) { return int64_t(wide(x) * wide(y)); };
      })
      .Case([](DivOp) {
        return [](int64_t x, int64_t y) { return truncatedDivision(x, y); };
      })
      .Case([](PowOp) {
        return [](int64_t x, int64_t y) { return power(x, y); };
      })
      .Case([](MaximumOp) {
        return [](int64_t x, int64_t y) { return std::max(x, y); };
      })
      .Case([](MinimumOp) {
        return [](int64_t x, int64_t y) { return std::min(x, y); };
      })
      .Case([](FloorDivideOp) {
        return [](int64_t x, int64_t y) { return floorDivision(x, y); };
      })
      .Case([](RemainderOp) {
        return [](int64_t x, int64_t y) {
          return int64_t(wide(x) - wide(y) * wide(floorDivision(x, y)));
        };
      })
      .Case([](LogicalAndOp) {
        return [](int64_t x, int64_t y) { return x & y; };
      })
      .Case([](LogicalOrOp) {
        return [](int64_t x, int64_t y) { return x | y; };
      })
      .Case([](LogicalXorOp) {
        return [](int64_t x, int64_t y) { return x ^ y; };
      })
      .Default([](Operation *) { return nullptr; });
}

template <typename T> static bool applyCompare(Predicate predicate, T x, T y) {
  switch (predicate) {
  case Predicate::Eq:
    return x == y;
  case Predicate::Ne:
    return x != y;
  case Predicate::Lt:
    return x < y;
  case Predicate::Le:
    return x <= y;
  case Predicate::Gt:
    return x > y;
  case Predicate::Ge:
    return x >= y;
  }
  llvm_unreachable("unknown predicate");
}

int64_t applyPhilox(uint64_t index, uint64_t seed, uint64_t step,
                    uint64_t ordinal) {
  uint64_t block = index / 4;
  uint32_t counter[4] = {uint32_t(block), uint32_t(block >> 32),
                         uint32_t(ordinal), uint32_t(step)};
  uint32_t key[2] = {uint32_t(seed), uint32_t(seed >> 32)};
  constexpr uint64_t kMultipliers[2] = {0xD2511F53, 0xCD9E8D57};
  constexpr uint32_t kWeyl[2] = {0x9E3779B9, 0xBB67AE85};
  for (int round = 0; round < 10; ++round) {
    uint64_t low = kMultipliers[0] * counter[0];
    uint64_t high = kMultipliers[1] * counter[2];
    counter[0] = uint32_t(high >> 32) ^ counter[1] ^ key[0];
    counter[2] = uint32_t(low >> 32) ^ counter[3] ^ key[1];
    counter[1] = uint32_t(high);
    counter[3] = uint32_t(low);
    key[0] += kWeyl[0];
    key[1] += kWeyl[1];
  }
  return counter[index % 4];
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

namespace {
/// The operands of an elementwise operator, seen in the shape of its result.
class Broadcast {
public:
  Broadcast(const Call &call) : call(call) {
    for (const Part &part : call.operandParts)
      sources.push_back(mapBroadcast(part.shape, call.resultParts[0].shape));
  }
  double getDouble(unsigned operand, int64_t i) const {
    return call.operand(operand).getDouble(sources[operand][i]);
  }
  int64_t getInteger(unsigned operand, int64_t i) const {
    return call.operand(operand).getInteger(sources[operand][i]);
  }
  int64_t getSource(unsigned operand, int64_t i) const {
    return sources[operand][i];
  }

private:
  const Call &call;
  SmallVector<std::vector<int64_t>, 3> sources;
};
} // namespace

static LogicalResult reportElementType(Operation *op, const Tensor &operand) {
  return op->emitOpError("has no meaning for elements of type ")
         << operand.getElementType();
}

static LogicalResult runUnary(Operation *op, Call &call) {
  Broadcast in(call);
  Tensor &result = call.result();
  FloatUnary onFloats = result.isFloat() ? getFloatUnary(op) : nullptr;
  IntegerUnary onIntegers = result.isFloat() ? nullptr : getIntegerUnary(op);
  if (!onFloats && !onIntegers)
    return reportElementType(op, call.operand(0));
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    if (onFloats)
      result.setDouble(i, onFloats(in.getDouble(0, i)));
    else
      result.setInteger(i, onIntegers(in.getInteger(0, i)));
  }
  return success();
}

static LogicalResult checkDivisors(Operation *op, const Tensor &divisors) {
  if (divisors.isFloat() || !isa<DivOp, RemainderOp, FloorDivideOp>(op))
    return success();
  for (int64_t i = 0; i < divisors.getNumElements(); ++i)
    if (divisors.getInteger(i) == 0)
      return op->emitOpError("divides an integer by zero");
  return success();
}

static LogicalResult runBinary(Operation *op, Call &call) {
  Broadcast in(call);
  Tensor &result = call.result();
  FloatBinary onFloats = result.isFloat() ? getFloatBinary(op) : nullptr;
  IntegerBinary onIntegers = result.isFloat() ? nullptr : getIntegerBinary(op);
  if (!onFloats && !onIntegers)
    return reportElementType(op, call.operand(0));
  if (failed(checkDivisors(op, call.operand(1))))
    return failure();
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    if (onFloats)
      result.setDouble(i, onFloats(in.getDouble(0, i), in.getDouble(1, i)));
    else
      result.setInteger(i,
                        onIntegers(in.getInteger(0, i), in.getInteger(1, i)));
  }
  return success();
}

static LogicalResult runCompare(CompareOp op, Call &call) {
  Broadcast in(call);
  Predicate predicate = op.getPredicate();
  bool isFloat = call.operand(0).isFloat();
  for (int64_t i = 0; i < call.result().getNumElements(); ++i)
    call.result().setInteger(
        i, isFloat
               ? applyCompare(predicate, in.getDouble(0, i), in.getDouble(1, i))
               : applyCompare(predicate, in.getInteger(0, i),
                              in.getInteger(1, i)));
  return success();
}

static LogicalResult runSelect(Call &call) {
  Broadcast in(call);
  for (int64_t i = 0; i < call.result().getNumElements(); ++i) {
    unsigned chosen = in.getInteger(0, i) ? 1 : 2;
    call.result().copyElement(i, call.operand(chosen), in.getSource(chosen, i));
  }
  return success();
}

static LogicalResult runConvert(Call &call) {
  const Tensor &from = call.operand(0);
  Tensor &to = call.result();
  bool isTruth = to.getElementType().isInteger(1);
  Broadcast in(call);
  for (int64_t i = 0; i < to.getNumElements(); ++i) {
    if (isTruth)
      to.setInteger(i, from.isFloat() ? in.getDouble(0, i) != 0
                                      : in.getInteger(0, i) != 0);
    else if (to.isFloat())
      to.setDouble(i, in.getDouble(0, i));
    else
      to.setInteger(i, in.getInteger(0, i));
  }
  return success();
}

static LogicalResult runPhilox(PhiloxOp op, Call &call) {
  Broadcast in(call);
  for (int64_t i = 0; i < call.result().getNumElements(); ++i)
    call.result().setInteger(
        i, applyPhilox(in.getInteger(0, i), in.getInteger(1, i),
                       in.getInteger(2, i), op.getOrdinal()));
  return success();
}

LogicalResult runElementwise(Operation *op, Call &call) {
  if (auto compare = dyn_cast<CompareOp>(op))
    return runCompare(compare, call);
  if (auto philox = dyn_cast<PhiloxOp>(op))
    return runPhilox(philox, call);
  if (isa<SelectOp>(op))
    return runSelect(call);
  if (isa<ConvertOp>(op))
    return runConvert(call);
  return call.values.size() == 1 ? runUnary(op, call) : runBinary(op, call);
}

} // namespace tandem::reference
