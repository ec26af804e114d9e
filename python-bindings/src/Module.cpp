//===- Module.cpp - the Python module _tandem -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"

namespace tandem::python {

void raise(const char *className, const std::string &message) {
  nb::object type = nb::module_::import_("tandem.errors").attr(className);
  PyErr_SetString(type.ptr(), message.c_str());
  throw nb::python_error();
}

void check(const rt::Status &status, const char *className) {
  if (!status.ok())
    raise(className, status.message());
}

} // namespace tandem::python

NB_MODULE(_tandem, module) {
  // What lives when Python ends, such as a step that a thread holds, is the
  // user's and no leak.
  nanobind::set_leak_warnings(false);
  module.doc() = "The compiler and the runtime of Tandem.";
  tandem::python::bindProgram(module);
  tandem::python::bindSession(module);
  tandem::python::bindTimelines(module);
  tandem::python::bindOptions(module);
  tandem::python::bindCompile(module);
}
