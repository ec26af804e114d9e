//===- verify_commands.cpp - checks each command --------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/access.h"
#include "core/attention.h"
#include "core/collective.h"
#include "core/convolution.h"
#include "core/coordinates.h"
#include "core/gemm.h"
#include "core/text.h"
#include "core/verify.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace tandem::rt {

namespace {
class CommandVerifier {
public:
  CommandVerifier(const Program &program, int64_t rank)
      : program(program), rank(rank),
        rankProgram(program.rankPrograms[program.rankToProgram[size_t(rank)]]),
        point(program.coordinates(rank)) {}

  Status verify(const CoordinateUses *only);

private:
  Status verifyNumbers();
  Status verifyCommand(const Command &command);
  Status verifyWorkspace(const Command &command);
  Status verifyBody(const Repeat &op);
  /// The coordinates and iterations that it names exist, and 64 bits hold it.
  Status verifyAffine(const Affine &value);
  Status verifyBuffer(const Access &access);
  const Form *formOf(const BufferRef &ref) const;
  Status expectBytes(const char *what, const BufferRef &ref, int64_t bytes);
  Status expectAligned(const char *what, const BufferRef &ref, int64_t width);

  Status check(const Launch &op);
  Status check(const Gemm &op);
  Status check(const Attention &op);
  Status check(const Convolution &op);
  Status checkWrites(const char *name, Operation op);
  Status check(const Collective &op);
  Status check(const Transfer &op);
  Status check(const Copy &op);
  Status check(const Fill &op);
  Status check(const Check &op);
  Status check(const Repeat &op);
  Status check(const RecordEvent &op) { return checkEvent(op.event); }
  Status check(const WaitEvent &op) { return checkEvent(op.event); }
  Status checkEvent(uint32_t event);
  Status checkQueue(const Command &command);
  Status checkAxes(const std::vector<uint32_t> &axes);
  int64_t begin(const BufferRef &ref, int64_t iteration) const {
    return *evaluateChecked(ref.offset, point, iteration);
  }
  bool overlap(const BufferRef &a, const BufferRef &b) const;

  const Program &program;
  int64_t rank;
  const RankProgram &rankProgram;
  const std::vector<int64_t> point; ///< The rank's coordinates.
  /// Of the Repeat around the command, 1 outside.
  int64_t iterations = 1;
  bool inRepeat = false;
  std::set<uint32_t> ids;
  /// By queue: axis and points of its transfers; none where it has collectives.
  using Way = std::tuple<uint32_t, int64_t, int64_t>;
  std::map<uint32_t, std::optional<Way>> ways;
};

Status CommandVerifier::verifyAffine(const Affine &value) {
  for (const CoordinateTerm &term : value.terms)
    if (term.axis >= program.mesh.size())
      return errorOf("a coordinate names axis ", term.axis, " of a mesh with ",
                     program.mesh.size(), " axes");
  if (value.perIteration && !inRepeat)
    return errorOf("an offset or scalar moves by ", value.perIteration,
                   " per iteration outside of a repeat");
  for (int64_t iteration : {int64_t(0), iterations - 1})
    if (!evaluateChecked(value, point, iteration))
      return errorOf("an offset or scalar of ", value.base,
                     " and its terms is too large for 64 bits");
  return Status::success();
}

Status CommandVerifier::verifyBuffer(const Access &access) {
  const BufferRef &ref = *access.ref;
  if (Status status = verifyAffine(ref.offset); !status.ok())
    return status;
  int64_t size = spaceBytes(program, rankProgram, ref);
  if (size < 0)
    return errorOf("buffer names a space that does not exist: ",
                   bufferText(program, ref, rank));
  if (const Form *form = formOf(ref); form && !holds(program, *form, rank))
    return errorOf("buffer is ", bufferText(program, ref, rank),
                   ", which the rank does not hold: its form is ",
                   formText(program, *form));
  // What moves by a constant lies between its two ends.
  for (int64_t iteration : {int64_t(0), iterations - 1}) {
    int64_t at = begin(ref, iteration);
    if (at < 0 || at > size || ref.bytes < 0 || ref.bytes > size - at)
      return errorOf("buffer is ", bufferText(program, ref, rank, iteration),
                     iteration ? concat(" in iteration ", iteration) : "",
                     ", expected to lie within ", size, " bytes");
  }
  if (!access.write)
    return Status::success();
  if (ref.space == Space::Constant)
    return errorOf("writes constant ", ref.index);
  if (ref.space == Space::Argument &&
      program.arguments[ref.index].updatedBy < 0)
    return errorOf("writes argument '", program.arguments[ref.index].role, "/",
                   program.arguments[ref.index].name,
                   "', which is not declared as updated");
  return Status::success();
}

/// Of the argument or result that it lies in.
const Form *CommandVerifier::formOf(const BufferRef &ref) const {
  if (ref.space == Space::Argument)
    return &program.arguments[ref.index].form;
  return ref.space == Space::Result ? &program.results[ref.index].form
                                    : nullptr;
}

Status CommandVerifier::expectBytes(const char *what, const BufferRef &ref,
                                    int64_t bytes) {
  if (ref.bytes == bytes)
    return Status::success();
  return errorOf(what, " has ", ref.bytes, " bytes, expected ", bytes);
}

/// An element begins at a multiple of its bytes, in any iteration.
Status CommandVerifier::expectAligned(const char *what, const BufferRef &ref,
                                      int64_t width) {
  bool moves = iterations > 1 && ref.offset.perIteration % width != 0;
  if (begin(ref, 0) % width == 0 && !moves)
    return Status::success();
  return errorOf(what, " begins at ", bufferText(program, ref, rank, moves),
                 ", expected a multiple of its elements' ", width, " bytes");
}

/// In any iteration. The distance of the two changes by a constant: looked at
/// is the first iteration in which it is no longer too far on the one side.
bool CommandVerifier::overlap(const BufferRef &a, const BufferRef &b) const {
  if (a.space != b.space || a.index != b.index || !a.bytes || !b.bytes)
    return false;
  int64_t distance = begin(a, 0) - begin(b, 0);
  int64_t step =
      iterations == 1 ? 0 : a.offset.perIteration - b.offset.perIteration;
  if (step < 0)
    return overlap(b, a);
  int64_t iteration = 0;
  if (distance <= -a.bytes)
    iteration = step ? (-a.bytes - distance) / step + 1 : iterations;
  return iteration < iterations && distance + step * iteration < b.bytes;
}

Status CommandVerifier::check(const Launch &op) {
  if (op.codeObject >= program.codeObjects.size())
    return errorOf("launches from code object ", op.codeObject, " of ",
                   program.codeObjects.size());
  if (op.outputs.empty())
    return errorOf("launch writes nothing, expected at least one output");
  size_t numBuffers = op.inputs.size() + op.outputs.size();
  if (!op.types.empty() && op.types.size() != numBuffers)
    return errorOf("launch has types of ", op.types.size(),
                   " buffers, expected ", numBuffers);
  for (const Affine &scalar : op.scalars)
    if (Status status = verifyAffine(scalar); !status.ok())
      return status;
  const CodeObject &object = program.codeObjects[op.codeObject];
  if (!op.geometry && object.kind != CodeKind::SharedObject)
    return errorOf("launch from a ", codeKindName(object.kind),
                   " has no geometry");
  if (op.geometry)
    for (const auto &extents : {op.geometry->grid, op.geometry->block})
      for (uint32_t extent : extents)
        if (extent == 0)
          return errorOf("launch has a geometry with extent 0, expected none "
                         "below 1");
  return Status::success();
}

Status CommandVerifier::check(const Gemm &op) {
  if (Status status = verifyGemm(op); !status.ok())
    return status;
  int64_t in = elementBytes(op.inputType), out = elementBytes(op.outputType);
  Status status = expectAligned("gemm operand", op.a, in);
  if (status.ok())
    status = expectAligned("gemm operand", op.b, in);
  if (status.ok())
    status = expectAligned("gemm operand", op.c, out);
  for (const auto &[what, ref, elements] : besideOf(op))
    if (status.ok() && ref)
      status = expectAligned(what, *ref, out);
  return status.ok() ? checkWrites("gemm", op) : status;
}

/// What it writes overlaps nothing else that it reads or writes.
Status CommandVerifier::checkWrites(const char *name, Operation op) {
  Command command;
  command.operation = std::move(op);
  std::vector<Access> accesses = accessesOf(command);
  for (const Access &written : accesses)
    for (const Access &other : accesses)
      if (written.write && written.ref != other.ref &&
          overlap(*written.ref, *other.ref))
        return errorOf(name, " writes ",
                       bufferText(program, *written.ref, rank),
                       ", which overlaps another operand");
  return Status::success();
}

Status CommandVerifier::check(const Attention &op) {
  Status status = verifyAttention(op);
  return status.ok() ? checkWrites("attention", op) : status;
}

Status CommandVerifier::check(const Convolution &op) {
  Status status = verifyConvolution(op);
  for (size_t number = 0; number < 3; ++number)
    if (status.ok())
      status = expectAligned("convolution operand", op.tensors[number].buffer,
                             elementBytes(op.typeOf(number)));
  return status.ok() ? checkWrites("convolution", op) : status;
}

Status CommandVerifier::check(const Collective &op) {
  if (op.axes.empty())
    return errorOf("collective has no axes");
  if (Status status = checkAxes(op.axes); !status.ok())
    return status;
  int64_t n = 1;
  for (uint32_t axis : op.axes)
    n *= program.mesh[axis].size;
  if (Status status = verifyCollective(op, n); !status.ok())
    return status;
  int64_t width = elementBytes(op.type);
  Status status = expectBytes("collective's source", op.source,
                              numElements(op.shape) * width);
  if (status.ok())
    status = expectBytes("collective's destination", op.destination,
                         numElements(destinationShape(op, n)) * width);
  if (status.ok())
    status = expectAligned("collective's source", op.source, width);
  if (status.ok())
    status = expectAligned("collective's destination", op.destination, width);
  if (!status.ok() || !overlap(op.source, op.destination))
    return status;
  bool inPlace =
      op.kind == CollectiveKind::AllReduce &&
      op.source.offset.perIteration == op.destination.offset.perIteration &&
      begin(op.source, 0) == begin(op.destination, 0);
  if (!inPlace)
    return errorOf("collective's source and destination overlap at ",
                   bufferText(program, op.destination, rank));
  return status;
}

Status CommandVerifier::check(const Transfer &op) {
  if (Status status = checkAxes({op.axis}); !status.ok())
    return status;
  int64_t size = program.mesh[op.axis].size, here = point[op.axis];
  if (op.from < 0 || op.from >= size || op.to < 0 || op.to >= size ||
      op.from == op.to)
    return errorOf("transfer from point ", op.from, " to point ", op.to,
                   ", expected two of the ", size, " points of axis '",
                   program.mesh[op.axis].name, "'");
  if (here != op.from && here != op.to)
    return errorOf("transfer from point ", op.from, " to point ", op.to,
                   " is listed at point ", here, ", which is none of them");
  if (Status status = verifyShape(op.shape); !status.ok())
    return status;
  int64_t width = elementBytes(op.type), bytes = numElements(op.shape) * width;
  bool sends = here == op.from;
  Status status =
      expectBytes("transfer's source", op.source, sends ? bytes : 0);
  if (status.ok())
    status = expectBytes("transfer's destination", op.destination,
                         sends ? 0 : bytes);
  if (!status.ok() || bytes == 0)
    return status;
  return expectAligned("transfer", sends ? op.source : op.destination, width);
}

/// What waits on a queue with transfers are those of one way.
Status CommandVerifier::checkQueue(const Command &command) {
  const auto *transfer = std::get_if<Transfer>(&command.operation);
  if (!transfer && groupAxes(command.operation).empty())
    return Status::success();
  std::optional<Way> way;
  if (transfer)
    way = {transfer->axis, transfer->from, transfer->to};
  auto [found, isNew] = ways.try_emplace(command.queue, way);
  if (isNew || found->second == way)
    return Status::success();
  return errorOf("is on queue '", program.queues[command.queue].name,
                 "' with what waits for other ranks, expected a queue of its "
                 "own for the transfers of one point to one other");
}

Status CommandVerifier::check(const Copy &op) {
  return expectBytes("copy's destination", op.destination, op.source.bytes);
}

Status CommandVerifier::check(const Fill &op) {
  size_t size = op.pattern.size();
  if (size != 1 && size != 2 && size != 4 && size != 8)
    return errorOf("fill has a pattern of ", size,
                   " bytes, expected 1, 2, 4 or 8");
  if (op.destination.bytes % int64_t(size) != 0)
    return errorOf("fill of ", op.destination.bytes,
                   " bytes, expected a multiple of its pattern's ", size);
  return expectAligned("fill", op.destination, int64_t(size));
}

Status CommandVerifier::checkAxes(const std::vector<uint32_t> &axes) {
  if (std::adjacent_find(axes.begin(), axes.end(), std::greater_equal<>()) !=
      axes.end())
    return errorOf("axes of a group are not a set in mesh order");
  for (uint32_t axis : axes)
    if (axis >= program.mesh.size())
      return errorOf("a group names axis ", axis, " of a mesh with ",
                     program.mesh.size(), " axes");
  return Status::success();
}

Status CommandVerifier::check(const Check &op) {
  bool finite = op.kind == CheckKind::Finite;
  bool fits = finite ? isFloat(op.type) && op.type != ElementType::F16
                     : op.type == ElementType::I1;
  if (!fits)
    return errorOf("check of ", elementName(op.type), ", expected ",
                   finite ? "f64, f32 or bf16" : "i1");
  if (Status status = checkAxes(op.axes); !status.ok() || !op.source)
    return status;
  if (op.source->bytes % elementBytes(op.type) != 0)
    return errorOf("check of ", op.source->bytes, " bytes of ",
                   elementName(op.type));
  return expectAligned("check", *op.source, elementBytes(op.type));
}

Status CommandVerifier::check(const Repeat &op) {
  if (inRepeat)
    return errorOf("repeat within a repeat: repeats do not nest");
  if (op.count < 1 || op.count > kMaxIterations)
    return errorOf("repeats ", op.count, " times, expected 1 to ",
                   kMaxIterations);
  if (op.body.empty())
    return errorOf("repeat has no body");
  return Status::success();
}

Status CommandVerifier::checkEvent(uint32_t event) {
  if (event >= rankProgram.numEvents)
    return errorOf("event is ", event, ", expected less than ",
                   rankProgram.numEvents);
  return Status::success();
}

/// It is the command's own: no operand has a byte of it.
Status CommandVerifier::verifyWorkspace(const Command &command) {
  if (!command.workspace)
    return Status::success();
  const BufferRef &own = *command.workspace;
  const Operation &op = command.operation;
  if (own.space != Space::Arena)
    return errorOf("workspace is ", bufferText(program, own, rank),
                   ", expected a range of an arena");
  if (std::holds_alternative<Repeat>(op) ||
      std::holds_alternative<RecordEvent>(op) ||
      std::holds_alternative<WaitEvent>(op))
    return errorOf(Program::kindName(op), " has a workspace, expected none");
  for (const Access &access : accessesOf(command))
    if (access.ref != &own && overlap(*access.ref, own))
      return errorOf("workspace overlaps an operand at ",
                     bufferText(program, own, rank));
  return Status::success();
}

/// The Repeat itself was found right.
Status CommandVerifier::verifyBody(const Repeat &op) {
  inRepeat = true;
  iterations = op.count;
  Status status;
  for (const Command &inner : op.body)
    if (status.ok())
      status = verifyCommand(inner);
  inRepeat = false;
  iterations = 1;
  return status;
}

Status CommandVerifier::verifyCommand(const Command &command) {
  const auto *repeat = std::get_if<Repeat>(&command.operation);
  Status status;
  if (!ids.insert(command.id).second)
    status = errorOf("id is taken by another command");
  else if (command.queue >= program.queues.size())
    status =
        errorOf("is on queue ", command.queue, " of ", program.queues.size());
  else if (repeat && command.queue != 0)
    status = errorOf("is on queue ", command.queue,
                     ", expected 0: a repeat is on the queues of its body");
  for (const Access &access : accessesOf(command))
    if (status.ok())
      status = verifyBuffer(access);
  if (status.ok())
    status = verifyWorkspace(command);
  if (status.ok())
    status = std::visit([&](const auto &op) { return check(op); },
                        command.operation);
  if (status.ok())
    status = checkQueue(command);
  if (!status.ok())
    return errorOf(commandText(command), " of rank ", rank, ": ",
                   status.message());
  return repeat ? verifyBody(*repeat) : status;
}

/// Numbers that later on size what is kept per command.
Status CommandVerifier::verifyNumbers() {
  size_t commands = rankProgram.listing().size();
  if (rankProgram.numEvents > commands)
    return errorOf("rank program has ", rankProgram.numEvents,
                   " events, expected at most one for each of its ", commands,
                   " commands");
  return Status::success();
}

Status CommandVerifier::verify(const CoordinateUses *only) {
  Status status = verifyNumbers();
  for (const Command &command : rankProgram.commands)
    if (status.ok() && (!only || only->looksAt(command)))
      status = verifyCommand(command);
  return status;
}
} // namespace

Status verifyCommands(const Program &program, int64_t rank,
                      const CoordinateUses *only) {
  return CommandVerifier(program, rank).verify(only);
}

} // namespace tandem::rt
