//===- support.cpp - what the conformance tests share ---------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/support.h"

#include <cctype>
#include <fstream>
#include <iterator>
#include <unistd.h>

namespace tandem::rt::cts {

Bytes kernelImage() {
  std::ifstream file(TANDEM_RT_TEST_KERNELS, std::ios::binary);
  EXPECT_TRUE(file) << "no " << TANDEM_RT_TEST_KERNELS;
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

std::unique_ptr<Session> start(const ProgramBuilder &builder,
                               const SessionOptions &options) {
  Expected<Bytes> bytes = builder.finish();
  if (!bytes.ok()) {
    ADD_FAILURE() << bytes.status().message();
    return nullptr;
  }
  auto session = Session::create(*bytes, options);
  if (!session.ok()) {
    ADD_FAILURE() << session.status().message();
    return nullptr;
  }
  return std::move(*session);
}

void set(Session &session, const char *role, const char *name,
         const Tensor &value) {
  int index = session.findArgument(role, name);
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

void expectError(const Status &status, const std::string &text) {
  ASSERT_FALSE(status.ok()) << "expected an error with: " << text;
  EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
  EXPECT_EQ(status.message().find('\n'), std::string::npos);
  EXPECT_FALSE(std::isupper(status.message().front()));
}

Watchdog::Watchdog(unsigned seconds) { alarm(seconds); }
Watchdog::~Watchdog() { alarm(0); }

} // namespace tandem::rt::cts
