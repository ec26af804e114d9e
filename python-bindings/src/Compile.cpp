//===- Compile.cpp - the compiler in Python -------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"

#include "tandem/Execution/Compile.h"
#include "tandem_rt/simulate.h"
#include "tandem_rt/store.h"

namespace tandem::python {

namespace {
CompiledProgram compileText(const std::string &text, const std::string &name,
                            CompileOptions options, nb::object progress) {
  CompiledProgram result;
  std::string error;
  bool done;
  SignalPoll signals;
  options.isCancelled = [&signals] { return signals.isRaised(); };
  if (!progress.is_none())
    options.progress = [&](std::string_view what, size_t done, size_t all) {
      signals.call(progress, what, done, all);
    };
  {
    nb::gil_scoped_release unlocked;
    done = compile(text, name, options, result, error);
  }
  if (PyErr_Occurred())
    throw nb::python_error();
  if (!done)
    raise("CompileError", error);
  return result;
}

/// Values on the device that a step is to be compiled for.
std::shared_ptr<rt::ValueStore> openStore(const CompileOptions &options,
                                          int64_t numRanks) {
  rt::Target target;
  std::string error;
  if (!findTarget(options, target, error))
    raise("CompileError", error);
  if (target.device == rt::kSimulatedDevice)
    raise("CompileError",
          "device 'sim' computes no values, expected 'cpu' or 'cuda', or "
          "tandem-compile --device sim and tandem-run --device sim");
  auto store = std::make_shared<rt::ValueStore>();
  auto open = [&] {
    nb::gil_scoped_release unlocked;
    return store->open(target, numRanks);
  };
  check(open(), "ProgramError");
  return store;
}

std::string hashOf(const std::string &text, const std::string &name) {
  std::string hash, error;
  bool done;
  {
    nb::gil_scoped_release unlocked;
    done = hashModule(text, name, hash, error);
  }
  if (!done)
    raise("CompileError", error);
  return hash;
}

nb::bytes bytesOf(const CompiledProgram &program) {
  return nb::bytes(program.bytes.data(), program.bytes.size());
}
} // namespace

void bindCompile(nb::module_ &module) {
  nb::class_<CompiledProgram>(module, "CompiledProgram")
      .def_prop_ro("bytes", &bytesOf)
      .def_ro("plan_table", &CompiledProgram::planTable)
      .def_ro("plan", &CompiledProgram::plan)
      .def_ro("layouts", &CompiledProgram::layouts)
      .def_ro("explanation", &CompiledProgram::explanation)
      .def_ro("explanation_json", &CompiledProgram::explanationJson)
      .def_ro("ir", &CompiledProgram::ir)
      .def_ro("remarks", &CompiledProgram::remarks)
      .def_ro("seconds", &CompiledProgram::seconds);
  module.def(
      "compile", &compileText, nb::arg("text"), nb::arg("name"),
      nb::arg("options"), nb::arg("progress") = nb::none(),
      "Compiles the text of a training step to a Program. `progress(what, "
      "done, all)` is told of stages and kernels.");
  module.def("open_store", &openStore, nb::arg("options"), nb::arg("num_ranks"),
             "An empty store of values on the device of a step by so many "
             "ranks, 0: one for each process. What is missing for it here is "
             "an error before anything is compiled.");
  module.def("hash_step", &hashOf, nb::arg("text"), nb::arg("name"),
             "What a training step computes, as a number.");
}

} // namespace tandem::python
