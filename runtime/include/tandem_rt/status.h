//===- status.h - errors of the runtime -------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every function of the public interface that can fail returns a Status or an
// Expected: none throws. A message is one line that starts in lower case and
// names the value found, the value expected and the place.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_STATUS_H
#define TANDEM_RT_STATUS_H

#include <optional>
#include <string>
#include <utility>

namespace tandem::rt {

/// What a caller may want to tell apart.
enum class ErrorKind {
  General,
  /// A check refused the step, before it wrote anything that outlives it: a
  /// value is not finite,
  NotFinite,
  /// or not true.
  NotTrue,
};

/// Success, or one line that says what was wrong.
class [[nodiscard]] Status {
public:
  Status() = default;
  static Status success() { return Status(); }
  static Status error(std::string message,
                      ErrorKind kind = ErrorKind::General) {
    Status status;
    status.text = std::move(message);
    status.errorKind = kind;
    return status;
  }

  bool ok() const { return !text; }
  /// Of an error.
  ErrorKind kind() const { return errorKind; }
  bool isRefusal() const { return errorKind != ErrorKind::General; }
  /// The error; empty on success.
  const std::string &message() const {
    static const std::string none;
    return text ? *text : none;
  }

private:
  std::optional<std::string> text;
  ErrorKind errorKind = ErrorKind::General;
};

/// A value, or the error that took its place.
template <typename T> class [[nodiscard]] Expected {
public:
  Expected(T value) : payload(std::move(value)) {}
  Expected(Status status) : failure(std::move(status)) {
    if (failure.ok())
      failure = Status::error("internal error: success without a value");
  }

  bool ok() const { return payload.has_value(); }
  const Status &status() const { return failure; }
  T &operator*() { return *payload; }
  const T &operator*() const { return *payload; }
  T *operator->() { return &*payload; }
  const T *operator->() const { return &*payload; }

private:
  std::optional<T> payload;
  Status failure;
};

} // namespace tandem::rt

#endif // TANDEM_RT_STATUS_H
