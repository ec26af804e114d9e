//===- Program.cpp - Programs as data in Python ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Readable, for reports and tests of plans, and writable, for tests that plant
// mistakes.
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"

#include "tandem_rt/held.h"
#include "tandem_rt/new_file.h"
#include "tandem_rt/pinned.h"
#include "tandem_rt/program.h"

#include <nanobind/stl/bind_vector.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

namespace tandem::python {

using namespace rt;

namespace {
Program load(nb::bytes bytes) {
  auto data = static_cast<const uint8_t *>(bytes.data());
  auto program = loadProgram({data, bytes.size()});
  check(program.status(), "ProgramError");
  return std::move(*program);
}

void write(const std::string &path, nb::bytes bytes) {
  NewFile file(path, kProgramFile);
  file.stream().write(bytes.c_str(), std::streamsize(bytes.size()));
  check(file.finish(), "ProgramError");
}

nb::bytes serialize(const Program &program) {
  Bytes bytes = serializeProgram(program);
  return nb::bytes(bytes.data(), bytes.size());
}

void bindPlaces(nb::module_ &module) {
  nb::class_<Axis>(module, "Axis")
      .def_rw("name", &Axis::name)
      .def_rw("size", &Axis::size);
  nb::class_<DimForm>(module, "DimForm")
      .def_rw("time_factor", &DimForm::timeFactor)
      .def_rw("axes", &DimForm::axes);
  nb::class_<AxisPoint>(module, "AxisPoint")
      .def_rw("axis", &AxisPoint::axis)
      .def_rw("point", &AxisPoint::point);
  nb::class_<Form>(module, "Form")
      .def_rw("dims", &Form::dims)
      .def_rw("reduce", &Form::reduce)
      .def_rw("at", &Form::at);
  nb::class_<CoordinateTerm>(module, "CoordinateTerm")
      .def(nb::init<uint32_t, int64_t>())
      .def_rw("axis", &CoordinateTerm::axis)
      .def_rw("coefficient", &CoordinateTerm::coefficient);
  nb::class_<Affine>(module, "Affine")
      .def(nb::init<int64_t>())
      .def_rw("base", &Affine::base)
      .def_rw("terms", &Affine::terms)
      .def_rw("per_iteration", &Affine::perIteration);
  nb::enum_<Space>(module, "Space")
      .value("arena", Space::Arena)
      .value("argument", Space::Argument)
      .value("result", Space::Result)
      .value("constant", Space::Constant);
  nb::class_<BufferRef>(module, "BufferRef")
      .def("__init__",
           [](BufferRef *self, const BufferRef &other) {
             new (self) BufferRef(other);
           })
      .def_rw("space", &BufferRef::space)
      .def_rw("index", &BufferRef::index)
      .def_rw("offset", &BufferRef::offset)
      .def_rw("bytes", &BufferRef::bytes);
}

void bindTensors(nb::module_ &module) {
  nb::class_<Part>(module, "Part")
      .def_rw("whole", &Part::whole)
      .def_rw("shape", &Part::shape)
      .def_rw("dim", &Part::dim)
      .def_rw("offset", &Part::offset);
  nb::class_<Argument>(module, "Argument")
      .def_rw("role", &Argument::role)
      .def_rw("name", &Argument::name)
      .def_prop_ro("type",
                   [](const Argument &a) { return elementName(a.type); })
      .def_rw("global_shape", &Argument::globalShape)
      .def_rw("local_shape", &Argument::localShape)
      .def_rw("form", &Argument::form)
      .def_rw("updated_by", &Argument::updatedBy)
      .def_rw("part", &Argument::part);
  nb::class_<Result>(module, "Result")
      .def_rw("role", &Result::role)
      .def_rw("name", &Result::name)
      .def_prop_ro("type", [](const Result &r) { return elementName(r.type); })
      .def_rw("global_shape", &Result::globalShape)
      .def_rw("local_shape", &Result::localShape)
      .def_rw("form", &Result::form)
      .def_rw("place", &Result::place)
      .def_rw("part", &Result::part);
}

void bindOperations(nb::module_ &module) {
  nb::class_<Launch>(module, "Launch")
      .def_rw("code_object", &Launch::codeObject)
      .def_rw("symbol", &Launch::symbol)
      .def_rw("inputs", &Launch::inputs)
      .def_rw("outputs", &Launch::outputs)
      .def_rw("scalars", &Launch::scalars);
  nb::class_<Gemm>(module, "Gemm")
      .def_prop_ro("input_type",
                   [](const Gemm &g) { return elementName(g.inputType); })
      .def_rw("batch", &Gemm::batch)
      .def_rw("m", &Gemm::m)
      .def_rw("n", &Gemm::n)
      .def_rw("k", &Gemm::k)
      .def_rw("alpha", &Gemm::alpha)
      .def_rw("accumulate", &Gemm::accumulate)
      .def_rw("a", &Gemm::a)
      .def_rw("b", &Gemm::b)
      .def_rw("c", &Gemm::c)
      .def_rw("bias", &Gemm::bias)
      .def_rw("pre_activation", &Gemm::preActivation)
      .def_rw("sums_a", &Gemm::sumsA)
      .def_rw("sums_b", &Gemm::sumsB);
  nb::class_<Attention>(module, "Attention")
      .def_prop_ro("type",
                   [](const Attention &a) { return elementName(a.type); })
      .def_ro("batch", &Attention::batch)
      .def_ro("heads", &Attention::heads)
      .def_ro("key_heads", &Attention::keyHeads)
      .def_ro("queries", &Attention::queries)
      .def_ro("keys", &Attention::keys)
      .def_ro("width", &Attention::width)
      .def_ro("value_width", &Attention::valueWidth)
      .def_ro("before", &Attention::before)
      .def_ro("after", &Attention::after);
  nb::class_<Convolution>(module, "Convolution")
      .def_prop_ro("type",
                   [](const Convolution &c) { return elementName(c.type); })
      .def_ro("stride", &Convolution::stride)
      .def_ro("padding", &Convolution::padding)
      .def_ro("dilation", &Convolution::dilation)
      .def_prop_ro("input",
                   [](const Convolution &c) { return c.input().extents; })
      .def_prop_ro("weight",
                   [](const Convolution &c) { return c.weight().extents; })
      .def_prop_ro("output",
                   [](const Convolution &c) { return c.output().extents; });
  nb::class_<Collective>(module, "Collective")
      .def_rw("axes", &Collective::axes)
      .def_prop_ro("type",
                   [](const Collective &c) { return elementName(c.type); })
      .def_rw("shape", &Collective::shape)
      .def_rw("split_dim", &Collective::splitDim)
      .def_rw("concat_dim", &Collective::concatDim)
      .def_rw("source", &Collective::source)
      .def_rw("destination", &Collective::destination);
  nb::class_<Transfer>(module, "Transfer")
      .def_rw("axis", &Transfer::axis)
      .def_rw("from_point", &Transfer::from)
      .def_rw("to_point", &Transfer::to)
      .def_prop_ro("type",
                   [](const Transfer &t) { return elementName(t.type); })
      .def_rw("shape", &Transfer::shape)
      .def_rw("tag", &Transfer::tag)
      .def_rw("source", &Transfer::source)
      .def_rw("destination", &Transfer::destination);
  nb::class_<Copy>(module, "Copy")
      .def("__init__",
           [](Copy *self, const BufferRef &source,
              const BufferRef &destination) {
             new (self) Copy{source, destination};
           })
      .def_rw("source", &Copy::source)
      .def_rw("destination", &Copy::destination);
  nb::class_<Fill>(module, "Fill").def_rw("destination", &Fill::destination);
  nb::class_<Check>(module, "Check")
      .def_rw("axes", &Check::axes)
      .def_rw("source", &Check::source)
      .def_rw("message", &Check::message);
  nb::class_<Repeat>(module, "Repeat")
      .def_rw("count", &Repeat::count)
      .def_rw("body", &Repeat::body);
  nb::class_<RecordEvent>(module, "RecordEvent")
      .def_rw("event", &RecordEvent::event);
  nb::class_<WaitEvent>(module, "WaitEvent").def_rw("event", &WaitEvent::event);
}

/// The operation itself, not a copy: what Python changes is changed.
nb::object operationOf(nb::handle self) {
  auto &command = nb::cast<Command &>(self);
  return std::visit(
      [&](auto &operation) {
        return nb::cast(operation, nb::rv_policy::reference_internal, self);
      },
      command.operation);
}

/// Elements are references: a change of `list[i].x` is one of the list.
template <typename T> void bindList(nb::module_ &module, const char *name) {
  nb::bind_vector<std::vector<T>, nb::rv_policy::reference_internal>(module,
                                                                     name);
}

void bindCommands(nb::module_ &module) {
  nb::enum_<QueueRole>(module, "QueueRole")
      .value("compute", QueueRole::Compute)
      .value("communication", QueueRole::Communication)
      .value("copy", QueueRole::Copy);
  nb::class_<Queue>(module, "Queue")
      .def_rw("role", &Queue::role)
      .def_rw("name", &Queue::name);
  nb::class_<Command>(module, "Command")
      .def("__init__", [](Command *self,
                          const Command &other) { new (self) Command(other); })
      .def_rw("id", &Command::id)
      .def_rw("name", &Command::name)
      .def_rw("location", &Command::location)
      .def_rw("queue", &Command::queue)
      .def_rw("flops", &Command::flops)
      .def_rw("bytes", &Command::bytes)
      .def_rw("stage", &Command::stage)
      .def_rw("strand", &Command::strand)
      .def_prop_ro("kind",
                   [](const Command &command) {
                     return Program::kindName(command.operation);
                   })
      .def_prop_rw("operation", &operationOf,
                   [](Command &command, const Operation &operation) {
                     command.operation = operation;
                   });
  nb::class_<Arena>(module, "Arena").def_rw("bytes", &Arena::bytes);
  nb::class_<RankProgram>(module, "RankProgram")
      .def_rw("arenas", &RankProgram::arenas)
      .def_rw("num_events", &RankProgram::numEvents)
      .def_rw("commands", &RankProgram::commands);
  bindList<Argument>(module, "Arguments");
  bindList<Result>(module, "Results");
  bindList<Command>(module, "Commands");
  bindList<RankProgram>(module, "RankPrograms");
  bindList<BufferRef>(module, "BufferRefs");
  bindList<Arena>(module, "Arenas");
}

/// A run of a command: its place, iteration, begin and end in nanoseconds.
using Run = std::tuple<uint32_t, uint32_t, int64_t, int64_t>;

MemoryUse memoryOfRuns(const Program &program, int64_t rank,
                       const std::vector<Run> &runs) {
  Timeline timeline;
  for (auto [place, iteration, begin, end] : runs)
    timeline.events.push_back({.rank = rank,
                               .command = place,
                               .iteration = iteration,
                               .begin = begin,
                               .end = end});
  return memoryOf(program, timeline, rank);
}
} // namespace

void bindProgram(nb::module_ &module) {
  bindPlaces(module);
  bindTensors(module);
  bindOperations(module);
  bindCommands(module);
  module.def("write_program", &write, nb::arg("path"), nb::arg("bytes"));
  nb::class_<HeldValue>(module, "HeldValue")
      .def_ro("begin", &HeldValue::begin)
      .def_ro("end", &HeldValue::end)
      .def_ro("bytes", &HeldValue::bytes)
      .def_ro("maker", &HeldValue::maker);
  nb::class_<MemoryUse>(module, "MemoryUse")
      .def_ro("held", &MemoryUse::held)
      .def_ro("fixed", &MemoryUse::fixed)
      .def_ro("peak", &MemoryUse::peak)
      .def_ro("peak_time", &MemoryUse::peakTime)
      .def_ro("over_time", &MemoryUse::overTime)
      .def_ro("values", &MemoryUse::values);
  module.def(
      "program_hash",
      [](nb::bytes bytes) {
        auto data = static_cast<const uint8_t *>(bytes.data());
        return programHash({data, bytes.size()});
      },
      nb::arg("bytes"));
  nb::class_<Program>(module, "Program")
      .def_static("load", &load)
      .def("serialize", &serialize)
      .def("verify",
           [](const Program &program) {
             check(verifyProgram(program), "ProgramError");
           })
      .def("__str__", &printProgram)
      .def_rw("mesh", &Program::mesh)
      .def_rw("queues", &Program::queues)
      .def_rw("micro", &Program::micro)
      .def_rw("arguments", &Program::arguments)
      .def_rw("results", &Program::results)
      .def_rw("rank_programs", &Program::rankPrograms)
      .def_rw("rank_to_program", &Program::rankToProgram)
      .def_prop_ro("num_ranks", &Program::numRanks)
      .def("held_bytes", &heldBytes, nb::arg("rank"))
      .def("pinned_bytes", &pinnedBytes, nb::arg("rank"))
      .def(
          "is_on_host",
          [](const Program &program, const Argument &argument) {
            return isPinned(program, argument.memorySpace);
          },
          nb::arg("argument"))
      .def("memory_of", &memoryOfRuns, nb::arg("rank"), nb::arg("runs"));
}

} // namespace tandem::python
