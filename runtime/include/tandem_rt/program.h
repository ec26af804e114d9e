//===- program.h - the Program, in memory -----------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a Program says: plain data, which program_builder.h makes, program.fbs
// stores, verifyProgram() checks and an executor walks.
//
// A rank is a point of the mesh; its number is the row-major coordinate in the
// order of `mesh`. Only space axes are here: time is gone after duplex, but for
// the factor that it leaves in the forms of arguments and results.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_PROGRAM_H
#define TANDEM_RT_PROGRAM_H

#include "tandem_rt/element_type.h"
#include "tandem_rt/status.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace tandem::rt {

/// Readers accept exactly this version of the format.
inline constexpr uint32_t kProgramVersion = 1;
/// Every buffer that an executor allocates starts at this alignment, in bytes.
inline constexpr int64_t kBufferAlignment = 64;

using Shape = std::vector<int64_t>;
using Bytes = std::vector<uint8_t>;

/// A space axis of the mesh.
struct Axis {
  std::string name = {};
  int64_t size = 1;
};

/// What the code objects need. `features` are LLVM's names without a sign
/// ("avx512f"); loading fails on a machine that lacks one.
struct Target {
  std::string triple = {};
  std::string cpu = {};
  std::vector<std::string> features = {};
  /// The kind of device that runs it, as registered with the runtime.
  std::string device = "cpu";
};

/// An ELF shared object.
struct CodeObject {
  std::string name = {};
  Bytes image = {};
};

/// How one dimension of a whole tensor is laid out over time and space. With
/// time factor T, space factor S (the product of the sizes of `axes`) and local
/// extent T·L, local index (t, l) on slice s is global index (t·S + s)·L + l:
/// time is the major part, then the axes in mesh order.
struct DimForm {
  int64_t timeFactor = 1;
  std::vector<uint32_t> axes = {}; ///< Indices into the mesh, ascending.
};

/// The form of a tensor over the whole mesh. Axes that are not named are full.
struct Form {
  std::vector<DimForm> dims = {}; ///< One per dimension.
  std::vector<uint32_t> reduce =
      {}; ///< Axes along which each point holds a term.
};

/// `coefficient` times the rank's coordinate on a mesh axis.
struct CoordinateTerm {
  uint32_t axis = 0;
  int64_t coefficient = 0;
};

/// An integer that may depend on where the rank is: base + sum of terms.
struct Affine {
  int64_t base = 0;
  std::vector<CoordinateTerm> terms = {};

  Affine(int64_t base = 0) : base(base) {}
  Affine(int64_t base, std::vector<CoordinateTerm> terms)
      : base(base), terms(std::move(terms)) {}
  /// The coordinate on an axis itself.
  static Affine coordinate(uint32_t axis) { return Affine(0, {{axis, 1}}); }
};

enum class Space : uint8_t {
  Arena = 0,
  Argument = 1,
  Result = 2,
  Constant = 3
};

/// A range of bytes. `index` is the arena of the rank program, the argument,
/// the result or the constant.
struct BufferRef {
  Space space = Space::Arena;
  uint32_t index = 0;
  Affine offset = {}; ///< Bytes.
  int64_t bytes = 0;  ///< Length of the range.
};

/// Where a part lies that the compiler took out of a tensor of the model:
/// elements `offset` and following of dimension `dim` of the tensor `whole`.
struct Part {
  std::string whole = {};
  Shape shape = {}; ///< Of the whole.
  uint32_t dim = 0;
  int64_t offset = 0;
};

/// A tensor that comes from outside and lives as long as the executor.
struct Argument {
  /// parameter, state, buffer, input, seed, step, learning_rate or constant.
  std::string role = {};
  std::string name = {};
  ElementType type = ElementType::F32;
  Shape globalShape = {};
  Shape localShape = {}; ///< Follows from the form; checked.
  Form form = {};
  /// The result that lies in this argument, if the step updates it, else -1.
  /// Commands may write only arguments that are updated.
  int32_t updatedBy = -1;
  /// The range of values that export saw, for seeded data: [low, high].
  std::optional<std::pair<double, double>> range = {};
  /// Parts of one whole have its role, and cover it.
  std::optional<Part> part = {};
};

/// A tensor that can be read after a step.
struct Result {
  std::string role =
      {}; ///< loss, gradient, output, or the role of what it updates.
  std::string name = {};
  ElementType type = ElementType::F32;
  Shape globalShape = {};
  Shape localShape = {};
  Form form = {};
  /// Either the whole of an argument (an update in place), or, with space
  /// Result and the result's own index, a buffer of its own.
  BufferRef place = {};
  std::optional<Part> part = {};
};

/// Commands of one queue run one after the other; queues wait for each other
/// only through events.
enum class Queue : uint8_t { Compute = 0, Comm = 1 };
inline constexpr unsigned kNumQueues = 2;

/// Calls `extern "C" void symbol(void *const *buffers, const int64_t *scalars)`
/// with the inputs, then the outputs. A buffer that is read and written stands
/// in both lists.
struct Launch {
  uint32_t codeObject = 0;
  std::string symbol = {};
  std::vector<BufferRef> inputs = {};
  std::vector<BufferRef> outputs = {};
  std::vector<Affine> scalars = {};
};

enum class PostOp : uint8_t { None = 0, GeluErf = 1, GeluTanh = 2, Relu = 3 };

/// c = postOp(alpha · a·b + beta · c + bias), for each point of `batch`.
/// Types (inputs, output): f32 f32, bf16 bf16, bf16 f32, f64 f64; sums of bf16
/// are kept in f32. The bias has the type of the output.
struct Gemm {
  ElementType inputType = ElementType::F32;
  ElementType outputType = ElementType::F32;
  Shape batch = {}; ///< May be empty.
  int64_t m = 0, n = 0, k = 0;
  /// In elements: one per batch dimension (0 broadcasts, not for c), then for a
  /// (m, k), for b (k, n), for c (m, n).
  Shape stridesA = {}, stridesB = {}, stridesC = {};
  double alpha = 1.0;
  bool accumulate = false; ///< beta is 1, else 0.
  PostOp postOp = PostOp::None;
  BufferRef a = {}, b = {}, c = {};
  std::optional<BufferRef> bias = {}; ///< n elements, contiguous.
};

enum class CollectiveKind : uint8_t {
  AllReduce = 0,
  AllGather = 1,
  ReduceScatter = 2,
  AllToAll = 3,
};

/// A collective of the group of ranks that differ only in `axes`; members are
/// ordered row-major in mesh order. `shape` is the local shape of the source,
/// contiguous; N is the size of the group.
///   AllReduce      destination: shape; the only kind that may work in place
///   AllGather      destination: dimension `concatDim` times N
///   ReduceScatter  destination: dimension `splitDim` divided by N
///   AllToAll       destination: `splitDim` divided by, `concatDim` times N
struct Collective {
  CollectiveKind kind = CollectiveKind::AllReduce;
  std::vector<uint32_t> axes = {}; ///< Ascending, not empty.
  ElementType type = ElementType::F32;
  Shape shape = {};
  int32_t splitDim = -1;
  int32_t concatDim = -1;
  BufferRef source = {}, destination = {};
};

/// Copies `source.bytes` contiguous bytes.
struct Copy {
  BufferRef source = {}, destination = {};
};

/// Repeats a pattern of 1, 2, 4 or 8 bytes over the destination.
struct Fill {
  BufferRef destination = {};
  Bytes pattern = {};
};

/// Stops the step if an element is not finite. The value must be `full`, so
/// that all ranks see the same; nothing that the step keeps may be written
/// before, so that the step can be taken back.
struct CheckFinite {
  ElementType type = ElementType::F32;
  BufferRef source = {};
  std::string what = {}; ///< For the error: "loss".
};

/// Events connect the two queues of one rank: recorded once, waited for any
/// number of times, within one step.
struct RecordEvent {
  uint32_t event = 0;
};
struct WaitEvent {
  uint32_t event = 0;
};

using Operation = std::variant<Launch, Gemm, Collective, Copy, Fill,
                               CheckFinite, RecordEvent, WaitEvent>;

struct Command {
  uint32_t id = 0;           ///< Unique in its rank program; stable.
  std::string name = {};     ///< What the user would call it.
  std::string location = {}; ///< "file.py:12".
  Queue queue = Queue::Compute;
  int64_t flops = 0;
  int64_t bytes = 0; ///< Read and written; of a collective: sent by one rank.
  int32_t stage = 0;
  int32_t strand = 0; ///< -1: shared by all strands.
  Operation operation = {};
};

struct Arena {
  std::string memorySpace = "host";
  int64_t bytes = 0;
  int64_t alignment = kBufferAlignment;
};

/// `commands` holds both queues in one order in which they could be enqueued:
/// an event is recorded before it is waited for.
struct RankProgram {
  std::vector<Arena> arenas = {};
  uint32_t numEvents = 0;
  std::vector<Command> commands = {};
};

struct Program {
  Target target = {};
  std::vector<Axis> mesh = {};
  int64_t micro = 1; ///< Number of strands; informational.
  std::vector<CodeObject> codeObjects = {};
  std::vector<Bytes> constants = {};
  std::vector<Argument> arguments = {};
  std::vector<Result> results = {};
  std::vector<RankProgram> rankPrograms = {};
  std::vector<uint32_t> rankToProgram = {}; ///< One per rank.

  int64_t numRanks() const;
  /// Coordinates of a rank, one per axis.
  std::vector<int64_t> coordinates(int64_t rank) const;
  int64_t evaluate(const Affine &value, int64_t rank) const;
  /// The ranks of the group of `rank` over `axes`, in group order.
  std::vector<int64_t> group(const std::vector<uint32_t> &axes,
                             int64_t rank) const;
  /// The name of a command's kind: "launch", "gemm", "all_reduce", ...
  static std::string_view kindName(const Operation &operation);
};

/// Product of the extents.
int64_t numElements(const Shape &shape);

/// The shape that one rank holds. Fails where an extent does not divide.
Expected<Shape> localShapeOf(const Program &program, const Shape &globalShape,
                             const Form &form);

/// Everything that can be known without running:
///  * forms, shapes, updates, ranks, symbols' objects and axes are consistent;
///  * every buffer lies in its space, for every rank;
///  * every event is recorded, once, before it is waited for;
///  * collectives come in the same order, and agree, on all members of a group;
///  * commands of different queues that touch the same bytes, one of them
///    writing, are ordered by events;
///  * nothing is read from an arena or from a result before it was written.
Status verifyProgram(const Program &program);

/// The bytes of a .tdm file. Deterministic.
Bytes serializeProgram(const Program &program);

/// Checks format, version and content hash, then verifyProgram().
Expected<Program> loadProgram(std::span<const uint8_t> bytes);

/// A listing for people: one line per argument, result and command.
std::string printProgram(const Program &program);

/// The features of this machine's CPU that `required` names and it lacks.
std::vector<std::string>
missingCpuFeatures(const std::vector<std::string> &required);

} // namespace tandem::rt

#endif // TANDEM_RT_PROGRAM_H
