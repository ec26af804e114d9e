//===- Compile.cpp - the compiler in Python -------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"

#include "tandem/Execution/Compile.h"
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
  nb::class_<CompileOptions>(module, "CompileOptions")
      .def(nb::init<>())
      .def_rw("from_stage", &CompileOptions::from)
      .def_rw("mesh", &CompileOptions::mesh)
      .def_rw("micro", &CompileOptions::micro)
      .def_rw("accumulate", &CompileOptions::accumulate)
      .def_rw("preset", &CompileOptions::preset)
      .def_rw("pins", &CompileOptions::pins)
      .def_rw("stored_parts", &CompileOptions::storedParts)
      .def_rw("plan_file", &CompileOptions::planFile)
      .def_rw("search", &CompileOptions::search)
      .def_rw("cluster", &CompileOptions::cluster)
      .def_rw("search_time_limit", &CompileOptions::searchTimeLimit)
      .def_rw("start", &CompileOptions::start)
      .def_rw("uses_presets", &CompileOptions::usesPresets)
      .def_rw("problem_out", &CompileOptions::problemOut)
      .def_rw("explain", &CompileOptions::explains)
      .def_rw("fail_on_replicate", &CompileOptions::failOnReplicate)
      .def_rw("timeline", &CompileOptions::timeline)
      .def_rw("recompute", &CompileOptions::recompute)
      .def_rw("device", &CompileOptions::device)
      .def_rw("architecture", &CompileOptions::architecture)
      .def_rw("uses_cache", &CompileOptions::usesCache)
      .def_rw("print_after", &CompileOptions::printAfter)
      .def_rw("print_locations", &CompileOptions::printLocations)
      .def_rw("stop_after", &CompileOptions::stopAfter);
  nb::class_<CompiledProgram>(module, "CompiledProgram")
      .def_prop_ro("bytes", &bytesOf)
      .def_ro("plan_table", &CompiledProgram::planTable)
      .def_ro("plan", &CompiledProgram::plan)
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
