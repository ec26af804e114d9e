//===- Bindings.h - the parts of the Python module --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `tandem._tandem`: the compiler and the runtime as Python sees them. No logic:
// every function converts, calls and converts back.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PYTHON_BINDINGS_H
#define TANDEM_PYTHON_BINDINGS_H

#include "tandem_rt/tensor.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <chrono>

// Lists that Python changes in place: bound as they are, not copied.
NB_MAKE_OPAQUE(std::vector<tandem::rt::Argument>)
NB_MAKE_OPAQUE(std::vector<tandem::rt::Result>)
NB_MAKE_OPAQUE(std::vector<tandem::rt::Command>)
NB_MAKE_OPAQUE(std::vector<tandem::rt::RankProgram>)
NB_MAKE_OPAQUE(std::vector<tandem::rt::BufferRef>)
NB_MAKE_OPAQUE(std::vector<tandem::rt::Arena>)

namespace tandem::python {

namespace nb = nanobind;

/// A tensor on the host in any package that speaks DLPack. Contiguous.
using HostArray = nb::ndarray<nb::device::cpu, nb::c_contig>;

/// Raises the class of that name in `tandem.errors`, with the line as text.
[[noreturn]] void raise(const char *className, const std::string &message);

/// Raises `className` unless all is well.
void check(const rt::Status &status, const char *className);

/// Whether a signal handler of Python raised an exception, which then waits to
/// be thrown. Asked without the interpreter's lock, which is taken a few times
/// per second.
class SignalPoll {
public:
  bool isRaised() {
    Clock::time_point now = Clock::now();
    if (raised || now - last < std::chrono::milliseconds(50))
      return raised;
    last = now;
    nb::gil_scoped_acquire locked;
    return raised = PyErr_CheckSignals() != 0;
  }

  /// Calls Python, whose exception waits as one of a signal handler does: the
  /// compiler is built without exceptions.
  template <typename... Args>
  void call(const nb::object &function, Args... args) {
    if (raised)
      return;
    nb::gil_scoped_acquire locked;
    try {
      function(args...);
    } catch (nb::python_error &error) {
      error.restore();
      raised = true;
    }
  }

private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last = Clock::now();
  bool raised = false;
};

void bindProgram(nb::module_ &module);
void bindSession(nb::module_ &module);
void bindTimelines(nb::module_ &module);
void bindCompile(nb::module_ &module);
void bindOptions(nb::module_ &module);

} // namespace tandem::python

#endif // TANDEM_PYTHON_BINDINGS_H
