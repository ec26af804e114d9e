//===- Session.cpp - running Programs from Python -------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"

#include "tandem_rt/processes.h"
#include "tandem_rt/read_guard.h"
#include "tandem_rt/session.h"

namespace tandem::python {

using rt::ElementType;

namespace {
std::optional<ElementType> elementTypeOf(nb::dlpack::dtype type) {
  auto is = [&](nb::dlpack::dtype_code code, unsigned bits) {
    return type.code == uint8_t(code) && type.bits == bits && type.lanes == 1;
  };
  using Code = nb::dlpack::dtype_code;
  if (is(Code::Float, 64))
    return ElementType::F64;
  if (is(Code::Float, 32))
    return ElementType::F32;
  if (is(Code::Float, 16))
    return ElementType::F16;
  if (is(Code::Bfloat, 16))
    return ElementType::BF16;
  if (is(Code::Int, 64))
    return ElementType::I64;
  if (is(Code::Int, 32))
    return ElementType::I32;
  if (is(Code::Int, 8))
    return ElementType::I8;
  if (is(Code::Bool, 8))
    return ElementType::I1;
  return std::nullopt;
}

rt::MutableTensorView viewOf(const HostArray &array) {
  std::optional<ElementType> type = elementTypeOf(array.dtype());
  if (!type)
    raise("RunError", "tensor has an element type that no Program knows");
  rt::MutableTensorView view;
  view.type = *type;
  view.data = array.data();
  for (size_t dim = 0; dim < array.ndim(); ++dim)
    view.shape.push_back(int64_t(array.shape(dim)));
  return view;
}

std::unique_ptr<rt::Session>
createSession(nb::bytes program, int threads,
              std::shared_ptr<rt::ValueStore> store, bool graph) {
  auto data = static_cast<const uint8_t *>(program.data());
  std::span<const uint8_t> bytes(data, program.size());
  rt::SessionOptions options;
  options.threads = threads;
  options.store = std::move(store);
  options.graph = graph;
  SignalPoll signals;
  options.isCancelled = [&signals] { return signals.isRaised(); };
  auto create = [&] {
    nb::gil_scoped_release unlocked;
    return rt::Session::create(bytes, options);
  };
  auto session = create();
  if (PyErr_Occurred())
    throw nb::python_error();
  check(session.status(), "ProgramError");
  return std::move(*session);
}

/// A refused step is told apart by its class: its values are as before.
const char *classOf(const rt::Status &status) {
  switch (status.kind()) {
  case rt::ErrorKind::General:
    return "RunError";
  case rt::ErrorKind::NotFinite:
    return "NonFiniteLossError";
  case rt::ErrorKind::NotTrue:
    return "StepRefusedError";
  }
  return "RunError";
}

void step(rt::Session &session) {
  rt::Status status;
  {
    nb::gil_scoped_release unlocked;
    status = session.step();
  }
  check(status, classOf(status));
}

/// Others of the job may be waited for, while Python goes on.
template <typename Call> void checkUnlocked(Call call) {
  rt::Status status;
  {
    nb::gil_scoped_release unlocked;
    status = call();
  }
  check(status, "RunError");
}

void setArgument(rt::Session &session, uint32_t index, const HostArray &array,
                 std::optional<int64_t> root) {
  rt::MutableTensorView view = viewOf(array);
  checkUnlocked([&] {
    return session.setArgument(index, {view.type, view.shape, view.data}, root);
  });
}

void getArgument(rt::Session &session, uint32_t index, const HostArray &array,
                 std::optional<int64_t> root) {
  rt::MutableTensorView view = viewOf(array);
  checkUnlocked([&] { return session.getArgument(index, view, root); });
}

void getResult(rt::Session &session, uint32_t index, const HostArray &array,
               std::optional<int64_t> root) {
  rt::MutableTensorView view = viewOf(array);
  checkUnlocked([&] { return session.getResult(index, view, root); });
}

/// A tensor in memory of the GPU, by numbers: type, shape, and what data_ptr()
/// and a stream of PyTorch's are.
rt::DeviceTensor deviceTensor(const std::string &type, rt::Shape shape,
                              uint64_t address, uint64_t stream) {
  std::optional<ElementType> known = rt::parseElementType(type);
  if (!known)
    raise("RunError",
          "tensor has the element type '" + type + "', which no Program knows");
  return {*known, std::move(shape), address, stream};
}

void setArgumentDirectly(rt::Session &session, uint32_t index,
                         const std::string &type, rt::Shape shape,
                         uint64_t address, uint64_t stream) {
  rt::DeviceTensor tensor =
      deviceTensor(type, std::move(shape), address, stream);
  checkUnlocked([&] { return session.setArgument(index, tensor); });
}

void getResultDirectly(rt::Session &session, uint32_t index,
                       const std::string &type, rt::Shape shape,
                       uint64_t address, uint64_t stream) {
  rt::DeviceTensor tensor =
      deviceTensor(type, std::move(shape), address, stream);
  checkUnlocked([&] { return session.getResult(index, tensor); });
}

void readSlice(rt::Session &session, uint32_t member, int64_t rank,
               int64_t offset, const HostArray &array) {
  std::span<uint8_t> bytes(static_cast<uint8_t *>(array.data()),
                           array.nbytes());
  checkUnlocked([&] { return session.readSlice(member, rank, offset, bytes); });
}

void writeSlice(rt::Session &session, uint32_t member, int64_t rank,
                int64_t offset, const HostArray &array) {
  std::span<const uint8_t> bytes(static_cast<const uint8_t *>(array.data()),
                                 array.nbytes());
  checkUnlocked(
      [&] { return session.writeSlice(member, rank, offset, bytes); });
}

std::vector<rt::Slice> slices(rt::Session &session, uint32_t index) {
  auto all = session.slices(index);
  check(all.status(), "RunError");
  return std::move(*all);
}

void beginLoading(rt::Session &session, const std::string &source) {
  check(session.beginLoading(source), "RunError");
}

void endLoading(rt::Session &session) {
  check(session.endLoading(), "RunError");
}

/// Whether this process has the file, and what it lacks.
std::pair<bool, std::string> writeTrace(rt::Session &session,
                                        const std::string &path, bool alone) {
  rt::TraceSummary summary;
  checkUnlocked([&] {
    auto written = session.writeTrace(path, alone);
    if (written.ok())
      summary = *written;
    return written.status();
  });
  return {summary.isWriter, summary.lacks};
}

template <typename T> T take(rt::Expected<T> value) {
  check(value.status(), "JobError");
  return std::move(*value);
}

rt::Processes joinProcesses() {
  auto join = [] {
    nb::gil_scoped_release unlocked;
    return rt::Processes::join();
  };
  return take(join());
}

std::vector<std::string> exchange(rt::Processes &processes,
                                  const std::string &what,
                                  const std::string &text) {
  auto call = [&] {
    nb::gil_scoped_release unlocked;
    return processes.exchange(what, text);
  };
  return take(call());
}

void conclude(rt::Processes &processes, const std::string &what,
              const std::string &error) {
  auto call = [&] {
    nb::gil_scoped_release unlocked;
    return processes.conclude(what, error);
  };
  check(call(), "JobError");
}

void leave(const std::string &error) {
  nb::gil_scoped_release unlocked;
  rt::Processes::leave(error);
}

nb::bytes broadcast(rt::Processes &processes, nb::bytes value) {
  std::string own(value.c_str(), value.size());
  auto call = [&] {
    nb::gil_scoped_release unlocked;
    return processes.broadcast(own);
  };
  std::string all = take(call());
  return nb::bytes(all.data(), all.size());
}
} // namespace

static void bindReadGuard(nb::module_ &module) {
  nb::class_<rt::ReadGuard>(module, "ReadGuard")
      .def(
          "__init__",
          [](rt::ReadGuard *self, uint64_t address, size_t bytes) {
            new (self)
                rt::ReadGuard(reinterpret_cast<const void *>(address), bytes);
          },
          nb::arg("address"), nb::arg("bytes"))
      .def(
          "check",
          [](const rt::ReadGuard &self, const std::string &name) {
            if (rt::Status status = self.check(); !status.ok())
              raise("RunError", name + " " + status.message());
          },
          nb::arg("name"))
      .def("end", &rt::ReadGuard::end);
}

static void bindProcesses(nb::module_ &module) {
  module.def("num_processes", [] { return take(rt::numProcesses()); });
  module.def("listen_for_processes",
             [] { return take(rt::listenForProcesses()); });
  nb::class_<rt::Processes>(module, "Processes")
      .def_static("join", &joinProcesses)
      .def_prop_ro("process", &rt::Processes::process)
      .def("exchange", &exchange, nb::arg("what"), nb::arg("text"))
      .def("conclude", &conclude, nb::arg("what"), nb::arg("error"))
      .def_static("leave", &leave, nb::arg("error"))
      .def("broadcast", &broadcast);
}

static void bindStore(nb::module_ &module) {
  nb::class_<rt::StoredTensor>(module, "StoredTensor")
      .def_ro("role", &rt::StoredTensor::role)
      .def_ro("name", &rt::StoredTensor::name)
      .def_prop_ro("type",
                   [](const rt::StoredTensor &tensor) {
                     return std::string(rt::elementName(tensor.type));
                   })
      .def_ro("shape", &rt::StoredTensor::shape)
      .def_ro("damaged", &rt::StoredTensor::damaged);
  nb::class_<rt::ValueStore>(module, "ValueStore")
      .def(nb::init<>())
      .def_prop_ro("tensors", &rt::ValueStore::tensors);
}

void bindSession(nb::module_ &module) {
  bindStore(module);
  bindProcesses(module);
  bindReadGuard(module);
  nb::class_<rt::Whole>(module, "Whole")
      .def_ro("role", &rt::Whole::role)
      .def_ro("name", &rt::Whole::name)
      .def_prop_ro("type",
                   [](const rt::Whole &whole) {
                     return std::string(rt::elementName(whole.type));
                   })
      .def_ro("shape", &rt::Whole::shape)
      .def_ro("members", &rt::Whole::members);
  nb::class_<rt::Slice>(module, "Slice")
      .def_ro("member", &rt::Slice::member)
      .def_ro("rank", &rt::Slice::rank)
      .def_ro("offsets", &rt::Slice::offsets)
      .def_ro("extents", &rt::Slice::extents);
  nb::class_<rt::Session>(module, "Session")
      .def(nb::new_(&createSession), nb::arg("program"), nb::arg("threads") = 1,
           nb::arg("store") = nb::none(), nb::arg("graph") = true)
      .def_prop_ro("store", &rt::Session::store)
      .def_prop_ro("program", &rt::Session::program,
                   nb::rv_policy::reference_internal)
      .def_prop_ro("arguments", &rt::Session::arguments)
      .def_prop_ro("results", &rt::Session::results)
      .def("find_argument", &rt::Session::findArgument)
      .def("find_result", &rt::Session::findResult)
      .def_prop_ro(
          "ranks",
          [](const rt::Session &session) { return session.job().ranks; })
      .def_prop_ro("notice", &rt::Session::notice)
      .def("set_argument", &setArgument, nb::arg("index"), nb::arg("value"),
           nb::arg("root") = nb::none())
      .def("get_argument", &getArgument, nb::arg("index"), nb::arg("value"),
           nb::arg("root") = nb::none())
      .def("get_result", &getResult, nb::arg("index"), nb::arg("value"),
           nb::arg("root") = nb::none())
      .def("is_direct_argument", &rt::Session::isDirectArgument)
      .def("is_direct_result", &rt::Session::isDirectResult)
      .def("set_argument_directly", &setArgumentDirectly, nb::arg("index"),
           nb::arg("type"), nb::arg("shape"), nb::arg("address"),
           nb::arg("stream"))
      .def("get_result_directly", &getResultDirectly, nb::arg("index"),
           nb::arg("type"), nb::arg("shape"), nb::arg("address"),
           nb::arg("stream"))
      .def("slices", &slices, nb::arg("index"))
      .def("read_slice", &readSlice, nb::arg("member"), nb::arg("rank"),
           nb::arg("offset"), nb::arg("bytes"))
      .def("write_slice", &writeSlice, nb::arg("member"), nb::arg("rank"),
           nb::arg("offset"), nb::arg("bytes"))
      .def("begin_loading", &beginLoading, nb::arg("source"))
      .def("end_loading", &endLoading)
      .def("step", &step)
      .def("start_trace", &rt::Session::startTrace)
      .def("stop_trace", &rt::Session::stopTrace)
      .def("write_trace", &writeTrace, nb::arg("path"),
           nb::arg("alone") = false)
      .def("hidden_share", [](rt::Session &session) {
        return rt::hiddenShare(session.program(), session.trace());
      });
}

} // namespace tandem::python
