//===- support.h - helpers of conformance tests -----------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CTS_SUPPORT_H
#define TANDEM_RT_CTS_SUPPORT_H

#include "cts/interpreter.h"
#include "tandem_rt/program_builder.h"
#include "tandem_rt/session.h"
#include "tandem_rt/timeline.h"

#include <cstring>
#include <gtest/gtest.h>
#include <random>

namespace tandem::rt::cts {

/// The queue that every builder has, and the first that addCommQueue() adds.
inline constexpr uint32_t kCompute = 0, kComm = 1;
void addCommQueue(ProgramBuilder &builder);

/// The shared object of kernels.cpp.
Bytes kernelImage();

template <typename T> struct TypeOf;
template <> struct TypeOf<float> {
  static constexpr ElementType value = ElementType::F32;
};
template <> struct TypeOf<double> {
  static constexpr ElementType value = ElementType::F64;
};
template <> struct TypeOf<int64_t> {
  static constexpr ElementType value = ElementType::I64;
};
template <> struct TypeOf<int32_t> {
  static constexpr ElementType value = ElementType::I32;
};

/// A tensor from numbers.
template <typename T>
Tensor tensorOf(Shape shape, const std::vector<T> &values) {
  Tensor tensor(TypeOf<T>::value, std::move(shape));
  if (!values.empty()) // memcpy takes no null, even for nothing
    std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
  return tensor;
}

template <typename T> std::vector<T> valuesOf(const Tensor &tensor) {
  std::vector<T> values(tensor.data.size() / sizeof(T));
  if (!values.empty())
    std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

/// Numbers of [-1, 1), the same for the same seed.
template <typename T>
std::vector<T> randomValues(int64_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> distribution(-1, 1);
  std::vector<T> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(T(distribution(engine)));
  return values;
}

/// Numbers as a tensor of one dimension of f64, f32 or bf16; and back.
Tensor encode(ElementType type, const std::vector<double> &values);
std::vector<double> decode(const Tensor &tensor);

/// Of a product's operands, and of what it makes: all that there are.
using GemmTypes = std::pair<ElementType, ElementType>;
inline auto allGemmTypes() {
  using enum ElementType;
  return testing::Values(GemmTypes{F32, F32}, GemmTypes{BF16, BF16},
                         GemmTypes{BF16, F32}, GemmTypes{F64, F64});
}
inline std::string nameOfTypes(const testing::TestParamInfo<GemmTypes> &info) {
  return std::string(elementName(info.param.first)) + "_" +
         std::string(elementName(info.param.second));
}

/// A session beside its twin, the interpreter: after each step all values of
/// the two are compared, and whether and why they were refused. Of all ranks,
/// and from zeros on.
class TwinSession {
public:
  /// The twin runs the Program that the tests made, whatever the device.
  TwinSession(std::unique_ptr<Session> session, Program program);

  Status setArgument(uint32_t index, const TensorView &value);
  Status step(std::span<const TensorView> inputs);
  Status step();
  Session &plain() { return *session; }

private:
  void compare(bool refused) const;

  std::unique_ptr<Session> session;
  const Program program;
  Interpreter twin;
};

/// The file of a Program, for the device that TANDEM_CTS_DEVICE names, or as it
/// is: all of the suite that starts sessions so runs on every device, and
/// without graphs where TANDEM_CTS_WITHOUT_GRAPH is set.
Expected<Bytes> finish(const ProgramBuilder &builder);

/// A session, or a failed test; alone, and beside its twin.
std::unique_ptr<Session> start(const ProgramBuilder &builder,
                               const SessionOptions &options = {});
std::unique_ptr<TwinSession> startTwin(const ProgramBuilder &builder,
                                       const SessionOptions &options = {});

void set(Session &session, const char *role, const char *name,
         const Tensor &value);
Tensor argument(const Session &session, const char *role, const char *name);
Tensor result(const Session &session, const char *role, const char *name);

void set(TwinSession &session, const char *role, const char *name,
         const Tensor &value);
Tensor argument(TwinSession &session, const char *role, const char *name);
Tensor result(TwinSession &session, const char *role, const char *name);

#define EXPECT_OK(expression)                                                  \
  do {                                                                         \
    ::tandem::rt::Status statusOfExpression = (expression);                    \
    EXPECT_TRUE(statusOfExpression.ok()) << statusOfExpression.message();      \
  } while (false)

/// The error says `text`, on one line that starts in lower case.
void expectError(const Status &status, const std::string &text);

/// Ends the process if one test takes longer: no hang may hold up the suite.
class Watchdog {
public:
  explicit Watchdog(unsigned seconds);
  ~Watchdog();
};

} // namespace tandem::rt::cts

#endif // TANDEM_RT_CTS_SUPPORT_H
