//===- verify.cpp - checks declarations -----------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/verify.h"
#include "core/access.h"
#include "core/coordinates.h"
#include "core/text.h"
#include "tandem_rt/wholes.h"

#include <algorithm>
#include <set>

namespace tandem::rt {

namespace {
Status verifyMesh(const Program &program) {
  std::set<std::string> names;
  int64_t ranks = 1;
  for (const Axis &axis : program.mesh) {
    if (axis.size < 1 || axis.size > kMaxRanks)
      return errorOf("mesh axis '", axis.name, "' has size ", axis.size,
                     ", expected 1 to ", kMaxRanks);
    if (!names.insert(axis.name).second)
      return errorOf("mesh has two axes named '", axis.name, "'");
    if ((ranks *= axis.size) > kMaxRanks)
      return errorOf("mesh has more than ", kMaxRanks, " ranks");
  }
  if (int64_t(program.rankToProgram.size()) != ranks)
    return errorOf("program maps ", program.rankToProgram.size(),
                   " ranks, expected ", ranks, " as in its mesh");
  for (size_t rank = 0; rank < program.rankToProgram.size(); ++rank)
    if (program.rankToProgram[rank] >= program.rankPrograms.size())
      return errorOf("rank ", rank, " runs rank program ",
                     program.rankToProgram[rank], " of ",
                     program.rankPrograms.size());
  return Status::success();
}

Status verifyQueues(const Program &program) {
  std::set<std::string> names;
  for (const Queue &queue : program.queues) {
    if (!names.insert(queue.name).second)
      return errorOf("program has two queues named '", queue.name, "'");
    if (queue.yields && queue.role != QueueRole::Communication)
      return errorOf("queue '", queue.name,
                     "' lets transfers go first, expected one that "
                     "communicates");
  }
  return Status::success();
}

Status verifyMemorySpaces(const Program &program) {
  std::set<std::string> names;
  for (const MemorySpace &space : program.memorySpaces) {
    int64_t a = space.alignment;
    if (!names.insert(space.name).second)
      return errorOf("program has two memory spaces named '", space.name, "'");
    if (a < 1 || a > kMaxAlignment || (a & (a - 1)))
      return errorOf("memory space '", space.name, "' has alignment ", a,
                     ", expected a power of two up to ", kMaxAlignment);
  }
  return Status::success();
}

Status verifyMemorySpace(const Program &program, uint32_t index) {
  if (index < program.memorySpaces.size())
    return Status::success();
  return errorOf("lies in memory space ", index, " of ",
                 program.memorySpaces.size());
}

Status verifyArenas(const Program &program) {
  for (const RankProgram &rankProgram : program.rankPrograms)
    for (const Arena &arena : rankProgram.arenas) {
      Status status = verifyMemorySpace(program, arena.memorySpace);
      if (status.ok() && (arena.bytes < 0 || arena.bytes > kMaxBytes))
        status =
            errorOf("has ", arena.bytes, " bytes, expected 0 to ", kMaxBytes);
      if (!status.ok())
        return errorOf("arena ", &arena - rankProgram.arenas.data(), ": ",
                       status.message());
    }
  return Status::success();
}

Status verifyConstants(const Program &program) {
  for (size_t i = 0; i < program.constants.size(); ++i)
    if (Status status =
            verifyMemorySpace(program, program.constants[i].memorySpace);
        !status.ok())
      return errorOf("constant ", i, ": ", status.message());
  return Status::success();
}

/// No axis may split two dimensions, or split and reduce.
Status verifyAxes(const Program &program, const Form &form) {
  std::set<uint32_t> used;
  auto claim = [&](uint32_t axis) {
    if (axis >= program.mesh.size())
      return errorOf("form names axis ", axis, " of a mesh with ",
                     program.mesh.size(), " axes");
    if (!used.insert(axis).second)
      return errorOf("form uses axis '", program.mesh[axis].name, "' twice");
    return Status::success();
  };
  for (const DimForm &dim : form.dims) {
    if (!std::is_sorted(dim.axes.begin(), dim.axes.end()))
      return errorOf("axes of one dimension are not in mesh order");
    for (uint32_t axis : dim.axes)
      if (Status status = claim(axis); !status.ok())
        return status;
  }
  for (uint32_t axis : form.reduce)
    if (Status status = claim(axis); !status.ok())
      return status;
  for (const AxisPoint &at : form.at) {
    if (Status status = claim(at.axis); !status.ok())
      return status;
    const Axis &axis = program.mesh[at.axis];
    if (at.point < 0 || at.point >= axis.size)
      return errorOf("form is at point ", at.point, " of axis '", axis.name,
                     "', expected one of its ", axis.size, " points");
    if (&at != form.at.data() && at.axis < (&at)[-1].axis)
      return errorOf("points of a form are not in mesh order");
  }
  return Status::success();
}

template <typename Entry>
Status verifyEntry(const Program &program, const Entry &entry) {
  if (Status status = verifyMemorySpace(program, entry.memorySpace);
      !status.ok())
    return status;
  if (Status status = verifyShape(entry.globalShape); !status.ok())
    return status;
  if (Status status = verifyAxes(program, entry.form); !status.ok())
    return status;
  Expected<Shape> local = localShapeOf(program, entry.globalShape, entry.form);
  if (!local.ok())
    return local.status();
  if (*local != entry.localShape)
    return errorOf("local shape is ", shapeText(entry.localShape),
                   ", expected ", shapeText(*local), " from its form ",
                   formText(program, entry.form));
  return Status::success();
}

/// An update lies in its argument, and is of the same kind.
Status verifyUpdate(const Program &program, uint32_t index) {
  const Argument &argument = program.arguments[index];
  if (argument.updatedBy == -1)
    return Status::success();
  if (argument.updatedBy < 0 ||
      size_t(argument.updatedBy) >= program.results.size())
    return errorOf("updated by result ", argument.updatedBy, " of ",
                   program.results.size());
  const Result &result = program.results[size_t(argument.updatedBy)];
  if (result.place.space != Space::Argument || result.place.index != index)
    return errorOf("updated by result '", result.role, "/", result.name,
                   "', which does not lie in it");
  return Status::success();
}

bool isSamePoint(const AxisPoint &a, const AxisPoint &b) {
  return a.axis == b.axis && a.point == b.point;
}

Status verifyPlace(const Program &program, uint32_t index) {
  const Result &result = program.results[index];
  const BufferRef &place = result.place;
  int64_t bytes = numElements(result.localShape) * elementBytes(result.type);
  if (place.bytes != bytes || place.offset.base != 0 ||
      place.offset.perIteration != 0 || !place.offset.terms.empty())
    return errorOf("place has ", place.bytes, " bytes at offset ",
                   place.offset.base, ", expected ", bytes, " at 0");
  if (place.space == Space::Result)
    return place.index == index
               ? Status::success()
               : errorOf("place is result ", place.index, ", expected ", index);
  if (place.space != Space::Argument || place.index >= program.arguments.size())
    return errorOf("place is neither its own buffer nor an argument");
  const Argument &argument = program.arguments[place.index];
  if (!std::ranges::equal(argument.form.at, result.form.at, isSamePoint))
    return errorOf("has form ", formText(program, result.form),
                   " and lies in an argument of form ",
                   formText(program, argument.form));
  if (argument.type != result.type || argument.localShape != result.localShape)
    return errorOf("lies in argument '", argument.role, "/", argument.name,
                   "' of type ", elementName(argument.type),
                   shapeText(argument.localShape), ", expected ",
                   elementName(result.type), shapeText(result.localShape));
  if (argument.memorySpace != result.memorySpace)
    return errorOf("is in memory space ", result.memorySpace,
                   " and lies in an argument in ", argument.memorySpace);
  return Status::success();
}

template <typename Entries, typename Extra>
Status verifyTable(const Program &program, const char *kind,
                   const Entries &entries, Extra extra) {
  std::set<std::pair<std::string, std::string>> names;
  for (uint32_t i = 0; i < entries.size(); ++i) {
    const auto &entry = entries[i];
    Status status = verifyEntry(program, entry);
    if (status.ok())
      status = extra(program, i);
    if (status.ok() && !names.insert({entry.role, entry.name}).second)
      status = errorOf("name is taken by another ", kind, " of the same role");
    if (!status.ok())
      return errorOf(kind, " '", entry.role, "/", entry.name,
                     "': ", status.message());
  }
  return Status::success();
}
} // namespace

Status verifyShape(const Shape &shape) {
  for (int64_t extent : shape)
    if (extent < 0 || extent > kMaxExtent)
      return errorOf("shape is ", shapeText(shape),
                     ", expected no extent below 0 or above ", kMaxExtent);
  if (numElements(shape) > kMaxBytes / 8)
    return errorOf("shape ", shapeText(shape), " is too large");
  return Status::success();
}

Status verifyDeclarations(const Program &program) {
  for (auto verify : {verifyMesh, verifyQueues, verifyMemorySpaces,
                      verifyArenas, verifyConstants})
    if (Status status = verify(program); !status.ok())
      return status;
  Status status =
      verifyTable(program, "argument", program.arguments, verifyUpdate);
  if (!status.ok())
    return status;
  status = verifyTable(program, "result", program.results, verifyPlace);
  if (status.ok())
    status = wholeArguments(program).status();
  return status.ok() ? wholeResults(program).status() : status;
}

namespace {
/// Those of all arguments and results.
std::vector<AxisPoint> pointsOf(const Program &program) {
  std::vector<AxisPoint> points;
  auto add = [&](const auto &entry) {
    points.insert(points.end(), entry.form.at.begin(), entry.form.at.end());
  };
  std::ranges::for_each(program.arguments, add);
  std::ranges::for_each(program.results, add);
  return points;
}

/// A rank that is verified.
struct Sample {
  int64_t rank = 0;
  /// Null: the first of those that differ only in what depends on coordinates.
  const CoordinateUses *only = nullptr;
};

/// Ranks of which each other one has the commands and, where they matter, the
/// coordinates.
std::vector<Sample> chooseSamples(const Program &program,
                                  const std::vector<CoordinateUses> &uses) {
  std::set<uint32_t> holding;
  for (const AxisPoint &at : pointsOf(program))
    holding.insert(at.axis);
  std::set<std::vector<int64_t>> seen, seenHolding;
  std::vector<Sample> samples;
  for (int64_t rank = 0; rank < program.numRanks(); ++rank) {
    uint32_t own = program.rankToProgram[size_t(rank)];
    std::vector<int64_t> point = program.coordinates(rank), key = {own};
    auto add = [&](const std::set<uint32_t> &axes) {
      for (uint32_t axis : axes)
        if (axis < point.size()) // what is not, verifyCommands() refuses
          key.push_back(point[axis]);
    };
    add(holding);
    bool isFirst = seenHolding.insert(key).second;
    add(uses[own].axes);
    if (seen.insert(key).second)
      samples.push_back({rank, isFirst ? nullptr : &uses[own]});
  }
  return samples;
}
} // namespace

Status verifyProgram(const Program &program) {
  if (Status status = verifyDeclarations(program); !status.ok())
    return status;
  std::vector<CoordinateUses> uses;
  for (const RankProgram &rankProgram : program.rankPrograms)
    uses.emplace_back(program, rankProgram);
  std::vector<Sample> samples = chooseSamples(program, uses);
  for (auto [rank, only] : samples)
    if (Status status = verifyCommands(program, rank, only); !status.ok())
      return status;
  if (Status status = verifyMeetings(program); !status.ok())
    return status;
  if (Status status = verifyVerdicts(program); !status.ok())
    return status;
  for (auto [rank, only] : samples) {
    Status status = verifyMovement(program, rank);
    if (status.ok())
      status = verifyHazards(program, rank, only);
    if (!status.ok())
      return status;
  }
  return Status::success();
}

int64_t spaceBytes(const Program &program, const RankProgram &rankProgram,
                   const BufferRef &ref) {
  auto tensorBytes = [](const auto &entry) {
    return numElements(entry.localShape) * elementBytes(entry.type);
  };
  switch (ref.space) {
  case Space::Arena:
    return ref.index < rankProgram.arenas.size()
               ? rankProgram.arenas[ref.index].bytes
               : -1;
  case Space::Argument:
    return ref.index < program.arguments.size()
               ? tensorBytes(program.arguments[ref.index])
               : -1;
  case Space::Result:
    return ref.index < program.results.size() &&
                   program.results[ref.index].place.space == Space::Result
               ? tensorBytes(program.results[ref.index])
               : -1;
  case Space::Constant:
    return ref.index < program.constants.size()
               ? int64_t(program.constants[ref.index].data.size())
               : -1;
  }
  return -1;
}

} // namespace tandem::rt
