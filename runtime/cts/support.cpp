//===- support.cpp - helpers of conformance tests -------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/support.h"
#include "cts/narrowed.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <unistd.h>

namespace tandem::rt::cts {

void addCommQueue(ProgramBuilder &builder) {
  ASSERT_EQ(builder.addQueue(QueueRole::Communication, "comm"), kComm);
}

static Bytes readFile(const char *path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << "no " << path;
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

Bytes kernelImage() { return readFile(TANDEM_RT_TEST_KERNELS); }

//===----------------------------------------------------------------------===//
// The session and its twin
//===----------------------------------------------------------------------===//

TwinSession::TwinSession(std::unique_ptr<Session> session, Program program)
    : session(std::move(session)), program(std::move(program)),
      twin(this->program) {}

Status TwinSession::setArgument(uint32_t index, const TensorView &value) {
  Status status = session->setArgument(index, value);
  if (status.ok())
    for (uint32_t member : session->arguments()[index].members)
      twin.setArgument(member, value.data);
  return status;
}

Status TwinSession::step(std::span<const TensorView> inputs) {
  const std::vector<uint32_t> &indices = session->inputs();
  for (size_t i = 0; i < std::min(indices.size(), inputs.size()); ++i)
    if (Status status = setArgument(indices[i], inputs[i]); !status.ok())
      return status;
  return inputs.size() == indices.size() ? step() : session->step(inputs);
}

Status TwinSession::step() {
  Status status = session->step(), expected = twin.step();
  EXPECT_EQ(status.ok(), expected.ok())
      << status.message() << " / " << expected.message();
  EXPECT_EQ(status.kind(), expected.kind());
  // The session says where as well.
  EXPECT_NE(status.message().find(expected.message()), std::string::npos)
      << status.message() << " / " << expected.message();
  if (status.ok() || status.isRefusal())
    compare(status.isRefusal());
  return status;
}

namespace {
/// Sums of other orders differ by roundings; what is only moved does not.
double toleranceOf(ElementType type) {
  switch (type) {
  case ElementType::F64:
    return 1e-12;
  case ElementType::F32:
    return hasTf32() ? 4e-3 : 1e-4;
  case ElementType::BF16:
    return 3e-2;
  default:
    return 0;
  }
}

void expectSame(const std::string &what, const Tensor &found,
                const Tensor &expected) {
  for (int64_t i = 0; i < numElements(found.shape); ++i) {
    double a = loadNumber(found.type, found.data.data(), i);
    double b = loadNumber(found.type, expected.data.data(), i);
    bool same =
        a == b || (a != a && b != b) ||
        std::fabs(a - b) <= toleranceOf(found.type) * (1 + std::fabs(b));
    ASSERT_TRUE(same) << what << " at " << i << " is " << a
                      << ", by the interpreter " << b;
  }
}
} // namespace

Tensor encode(ElementType type, const std::vector<double> &values) {
  Tensor tensor(type, {int64_t(values.size())});
  for (size_t i = 0; i < values.size(); ++i) {
    float single = float(values[i]);
    uint16_t half = floatToBf16(single);
    const void *from = type == ElementType::F64   ? (const void *)&values[i]
                       : type == ElementType::F32 ? (const void *)&single
                                                  : &half;
    size_t width = size_t(elementBytes(type));
    std::memcpy(tensor.data.data() + i * width, from, width);
  }
  return tensor;
}

std::vector<double> decode(const Tensor &tensor) {
  if (tensor.type == ElementType::F64)
    return valuesOf<double>(tensor);
  std::vector<double> values;
  if (tensor.type == ElementType::F32)
    for (float value : valuesOf<float>(tensor))
      values.push_back(value);
  else
    for (uint16_t value : valuesOf<uint16_t>(tensor))
      values.push_back(bf16ToFloat(value));
  return values;
}

void TwinSession::compare(bool refused) const {
  auto compareAll = [&](const char *kind, const auto &wholes, auto read,
                        auto readTwin) {
    for (uint32_t i = 0; i < wholes.size(); ++i) {
      Expected<Tensor> found = read(i);
      ASSERT_TRUE(found.ok()) << found.status().message();
      Tensor expected(wholes[i].type, wholes[i].shape);
      for (uint32_t member : wholes[i].members)
        readTwin(member, expected.data.data());
      expectSame(std::string(kind) + " " + wholes[i].role + "/" +
                     wholes[i].name,
                 *found, expected);
    }
  };
  compareAll(
      "argument", session->arguments(),
      [&](uint32_t i) { return session->getArgument(i); },
      [&](uint32_t i, void *to) { twin.getArgument(i, to); });
  if (!refused) // else results are half of this step and half of the last
    compareAll(
        "result", session->results(),
        [&](uint32_t i) { return session->getResult(i); },
        [&](uint32_t i, void *to) { twin.getResult(i, to); });
}

namespace {
/// The same Program for the device that TANDEM_CTS_DEVICE names: kernels are
/// run by one thread each, and memory of the host is the device's.
Program forDevice(Program program) {
  const char *device = std::getenv("TANDEM_CTS_DEVICE");
  if (!device)
    return program;
  program.target.device = device;
  for (MemorySpace &space : program.memorySpaces)
    if (space.kind == MemoryKind::Host)
      space.kind = MemoryKind::Device;
  for (CodeObject &object : program.codeObjects)
    if (object.image == kernelImage())
      object.image = readFile(TANDEM_RT_EMULATED_TEST_KERNELS);
  auto setGeometry = [](Command &command) {
    if (auto *launch = std::get_if<Launch>(&command.operation))
      launch->geometry.emplace();
  };
  for (RankProgram &rankProgram : program.rankPrograms)
    for (Command &command : rankProgram.commands) {
      setGeometry(command);
      if (auto *repeat = std::get_if<Repeat>(&command.operation))
        for (Command &inner : repeat->body)
          setGeometry(inner);
    }
  return program;
}
} // namespace

Expected<Bytes> finish(const ProgramBuilder &builder) {
  Expected<Bytes> bytes = builder.finish();
  if (!bytes.ok())
    return bytes;
  return serializeProgram(forDevice(builder.get()));
}

std::unique_ptr<Session> start(const ProgramBuilder &builder,
                               const SessionOptions &options) {
  Expected<Bytes> bytes = finish(builder);
  if (!bytes.ok()) {
    ADD_FAILURE() << bytes.status().message();
    return nullptr;
  }
  SessionOptions given = options;
  if (std::getenv("TANDEM_CTS_WITHOUT_GRAPH"))
    given.graph = false;
  auto session = Session::create(*bytes, given);
  if (!session.ok()) {
    ADD_FAILURE() << session.status().message();
    return nullptr;
  }
  return std::move(*session);
}

std::unique_ptr<TwinSession> startTwin(const ProgramBuilder &builder,
                                       const SessionOptions &options) {
  auto session = start(builder, options);
  return session
             ? std::make_unique<TwinSession>(std::move(session), builder.get())
             : nullptr;
}

void set(Session &session, const char *role, const char *name,
         const Tensor &value) {
  int index = session.findArgument(role, name);
  ASSERT_GE(index, 0) << role << "/" << name;
  EXPECT_OK(session.setArgument(uint32_t(index), value.view()));
}

void set(TwinSession &session, const char *role, const char *name,
         const Tensor &value) {
  int index = session.plain().findArgument(role, name);
  ASSERT_GE(index, 0) << role << "/" << name;
  EXPECT_OK(session.setArgument(uint32_t(index), value.view()));
}

namespace {
Tensor take(Expected<Tensor> tensor) {
  if (tensor.ok())
    return std::move(*tensor);
  ADD_FAILURE() << tensor.status().message();
  return {};
}
} // namespace

Tensor argument(const Session &session, const char *role, const char *name) {
  return take(session.getArgument(uint32_t(session.findArgument(role, name))));
}

Tensor result(const Session &session, const char *role, const char *name) {
  return take(session.getResult(uint32_t(session.findResult(role, name))));
}

Tensor argument(TwinSession &session, const char *role, const char *name) {
  return argument(session.plain(), role, name);
}

Tensor result(TwinSession &session, const char *role, const char *name) {
  return result(session.plain(), role, name);
}

void expectError(const Status &status, const std::string &text) {
  ASSERT_FALSE(status.ok()) << "expected an error with: " << text;
  EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
  EXPECT_EQ(status.message().find('\n'), std::string::npos);
  EXPECT_FALSE(std::isupper(status.message().front()));
}

/// By how much limits in time are multiplied on this machine.
static unsigned getPatience() {
  const char *text = std::getenv("TANDEM_PATIENCE");
  return text ? std::max(1, std::atoi(text)) : 1;
}

Watchdog::Watchdog(unsigned seconds) { alarm(seconds * getPatience()); }
Watchdog::~Watchdog() { alarm(0); }

} // namespace tandem::rt::cts
