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
  // A user's file that is quoted, or cut in a character, may be no UTF-8.
  auto text = nb::steal(PyUnicode_DecodeUTF8(
      message.data(), static_cast<Py_ssize_t>(message.size()),
      "backslashreplace"));
  PyErr_SetObject(type.ptr(), text.ptr());
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
