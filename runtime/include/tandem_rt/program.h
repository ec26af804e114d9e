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

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace tandem::rt {

/// Readers accept exactly this version of the format.
inline constexpr uint32_t kProgramVersion = 6;
/// Of memory of the host, in bytes: a cache line, and the widest vector.
inline constexpr int64_t kHostAlignment = 64;
/// No memory space has a larger one.
inline constexpr int64_t kMaxAlignment = 4096;

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

/// What a queue is for. A device chooses by it what runs the queue: a thread
/// and its cores, a stream and its priority, a copy engine.
enum class QueueRole : uint8_t { Compute = 0, Communication = 1, Copy = 2 };
inline constexpr unsigned kNumQueueRoles = 3;

/// Commands of one queue run one after the other; queues of a rank wait for
/// each other only through events.
struct Queue {
  QueueRole role = QueueRole::Compute;
  std::string name = "compute"; ///< Unique.
  /// Its collectives wait while a transfer moves over a link of their members,
  /// so that a transfer waits for one of them at most.
  bool yields = false;
};

enum class MemoryKind : uint8_t {
  Host = 0,
  Device = 1,
  Pinned = 2 ///< Of the host, and a device copies from it by itself.
};
inline constexpr unsigned kNumMemoryKinds = 3;

/// Where buffers lie. Arenas, arguments, results and constants of a space begin
/// at multiples of its alignment, a power of two up to kMaxAlignment.
struct MemorySpace {
  std::string name = "host"; ///< Unique.
  MemoryKind kind = MemoryKind::Host;
  int64_t alignment = kHostAlignment; ///< Bytes.
};

enum class CodeKind : uint8_t { SharedObject = 0, Ptx = 1, Cubin = 2 };
inline constexpr unsigned kNumCodeKinds = 3;

struct CodeObject {
  std::string name = {};
  Bytes image = {};
  CodeKind kind = CodeKind::SharedObject; ///< SharedObject: ELF.
};

struct Constant {
  Bytes data = {};
  uint32_t memorySpace = 0;
};

/// How one dimension of a whole tensor is laid out over time and space. With
/// time factor T, space factor S (the product of the sizes of `axes`) and local
/// extent T·L, local index (t, l) on slice s is global index (t·S + s)·L + l:
/// time is the major part, then the axes in mesh order.
struct DimForm {
  int64_t timeFactor = 1;
  std::vector<uint32_t> axes = {}; ///< Indices into the mesh, ascending.
};

/// One point of an axis.
struct AxisPoint {
  uint32_t axis = 0;
  int64_t point = 0; ///< From 0, below the size of the axis.
};

/// The form of a tensor over the whole mesh. Axes that are not named are full.
struct Form {
  std::vector<DimForm> dims = {}; ///< One per dimension.
  std::vector<uint32_t> reduce =
      {}; ///< Axes along which each point holds a term.
  /// Only ranks at these points have a slice; others hold nothing, and have no
  /// memory for it. By axis, ascending. The local shape is that of full.
  std::vector<AxisPoint> at = {};
};

/// `coefficient` times the rank's coordinate on a mesh axis.
struct CoordinateTerm {
  uint32_t axis = 0;
  int64_t coefficient = 0;
};

/// An integer that may depend on where the rank is, and inside of a Repeat on
/// the iteration: base + sum of terms + perIteration * iteration.
struct Affine {
  int64_t base = 0;
  std::vector<CoordinateTerm> terms = {};
  int64_t perIteration = 0; ///< Zero outside of a Repeat.

  Affine(int64_t base = 0) : base(base) {}
  Affine(int64_t base, std::vector<CoordinateTerm> terms,
         int64_t perIteration = 0)
      : base(base), terms(std::move(terms)), perIteration(perIteration) {}
  /// The coordinate on an axis itself.
  static Affine coordinate(uint32_t axis) { return Affine(0, {{axis, 1}}); }
  /// base, base + step, base + 2 * step, ... in the iterations of a Repeat.
  static Affine moving(int64_t base, int64_t step) { return {base, {}, step}; }
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
  uint32_t memorySpace = 0;
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
  uint32_t memorySpace = 0; ///< An update has its argument's.
};

/// How many threads run a kernel, where a device runs one by many.
struct Geometry {
  std::array<uint32_t, 3> grid = {1, 1, 1};
  std::array<uint32_t, 3> block = {1, 1, 1};
  uint32_t sharedBytes = 0; ///< Dynamic shared memory of a block.
};

/// Calls `extern "C" void symbol(void *const *buffers, const int64_t *scalars)`
/// with the inputs, then the outputs, then the command's workspace if there is
/// one. A buffer that is read and written stands in both lists. PTX and cubins
/// need a geometry.
struct Launch {
  uint32_t codeObject = 0;
  std::string symbol = {};
  std::vector<BufferRef> inputs = {};
  std::vector<BufferRef> outputs = {}; ///< At least one.
  std::vector<Affine> scalars = {};
  std::optional<Geometry> geometry = {};
  /// What the kernel's places are called that report an index which is out of
  /// range: "embedding (model.py:7)".
  std::vector<std::string> sites = {};
  /// Of the inputs, then of the outputs; empty where nobody says. To look for
  /// numbers that are not finite.
  std::vector<ElementType> types = {};
  /// Whether the kernel has a constant that is not finite, such as a mask's.
  bool hasInfinity = false;
};

/// The gradient multiplies by the derivative of GeluTanh at the pre-activation.
enum class PostOp : uint8_t {
  None = 0,
  GeluErf = 1,
  GeluTanh = 2,
  Relu = 3,
  GeluTanhGradient = 4,
};

/// c = postOp(alpha · a·b + beta · c + bias), for each point of `batch`.
/// Types (inputs, output): f32 f32, bf16 bf16, bf16 f32, f64 f64; sums of bf16
/// are kept in f32. All buffers but a and b have the type of the output. A CPU
/// has neither pre-activations nor sums beside a product.
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
  /// (m, n), contiguous, without a batch. GeluTanh keeps here what it is
  /// applied to, if asked; GeluTanhGradient reads it.
  std::optional<BufferRef> preActivation = {};
  /// Keeps sums over k, of a (m elements) or of b (n elements): the gradient of
  /// a bias beside that of a weight. Without a batch.
  std::optional<BufferRef> sumsA = {}, sumsB = {};

  bool readsPreActivation() const { return postOp == PostOp::GeluTanhGradient; }
};

/// A tensor of four dimensions whose rows are contiguous: strides of batch,
/// head and row, in elements. Rows do not overlap; of one row the stride is
/// any.
struct AttentionTensor {
  BufferRef buffer = {};
  Shape strides = {};
};

/// Broadcast by strides of 0: of batch, head, query and key.
struct AttentionMask {
  ElementType type =
      ElementType::I1; ///< i1: whether a key is seen; else added.
  BufferRef buffer = {};
  Shape strides = {};
};

/// A weight is kept if the bits of Philox4x32-10 at row * keys + key, with the
/// ordinal, `seed` and `step`, are below floor((1 - probability) 2^32).
struct AttentionDropout {
  double probability = 0;
  int64_t ordinal = 0;
  BufferRef rows = {}; ///< i64 (batch, heads, queries): numbers of rows.
  BufferRef seed = {}, step = {};
};

/// What the backward reads (`output`) and writes.
struct AttentionGradients {
  AttentionTensor output = {}, query = {}, key = {}, value = {};
};

/// output = dropout(softmax(scale query keyᵀ + mask)) value, for each batch and
/// head; heads / keyHeads heads share one of the keys. A row that sees no key
/// is zeros. With `gradients` the backward, which reads the output and the
/// log-sum-exp that it writes else. All are f32, f64 or bf16; the log-sum-exp
/// of bf16 is f32.
struct Attention {
  ElementType type = ElementType::F32;
  int64_t batch = 1, heads = 1, keyHeads = 1, queries = 1, keys = 1;
  int64_t width = 1, valueWidth = 1;
  double scale = 1.0;
  /// A query at position p sees keys from p - before to p + after; -1: all.
  int64_t before = -1, after = -1;
  AttentionTensor query = {}, key = {}, value = {}, output = {};
  BufferRef logsumexp = {}; ///< (batch, heads, queries)
  std::optional<AttentionMask> mask = {};
  std::optional<BufferRef> positions = {}; ///< i64 (queries), with a band.
  std::optional<AttentionDropout> dropout = {};
  std::optional<AttentionGradients> gradients = {};

  bool hasBand() const { return before >= 0 || after >= 0; }
};

enum class ConvolutionKind : uint8_t {
  Forward = 0,
  InputGradient = 1,
  WeightGradient = 2,
};

/// A tensor with all its strides, in elements.
struct ConvolutionTensor {
  BufferRef buffer = {};
  Shape extents = {}, strides = {};
};

/// The sum over n, g, i, o, y and k of
/// input(n, g i, s y + d k - p) weight(g o, i, k) output(n, g o, y),
/// with stride s, dilation d and padding p of 1 to 3 spatial dimensions, is
/// linear in each of the tensors; what is outside of the input is zero. A
/// convolution makes the output, which is its derivative by it, and its
/// gradients the two others, in the same way. All are f32, f64 or bf16; sums of
/// bf16 are kept in f32, and the gradient of a weight may be f32.
struct Convolution {
  ConvolutionKind kind = ConvolutionKind::Forward;
  ElementType type = ElementType::F32; ///< Of what is read.
  ElementType madeType = ElementType::F32;
  Shape stride = {}, padding = {}, dilation = {};
  std::array<ConvolutionTensor, 3> tensors = {}; ///< input, weight, output.

  const ConvolutionTensor &input() const { return tensors[0]; }
  const ConvolutionTensor &weight() const { return tensors[1]; }
  const ConvolutionTensor &output() const { return tensors[2]; }
  /// The numbers of the two tensors that are read, and of that which is made.
  std::array<size_t, 3> roles() const {
    if (kind == ConvolutionKind::Forward)
      return {0, 1, 2};
    if (kind == ConvolutionKind::InputGradient)
      return {2, 1, 0};
    return {0, 2, 1};
  }
  ElementType typeOf(size_t number) const {
    return number == roles()[2] ? madeType : type;
  }
  int64_t groups() const { return input().extents[1] / weight().extents[1]; }
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

/// Gives a tensor from point `from` of an axis to point `to`, between ranks
/// whose other coordinates are equal. Both ends list it. The end that sends has
/// a source alone, the other one a destination alone.
///
/// A send is done when its source may be written again. A receive may come
/// first, and waits. The n-th transfer of an axis, `from` and `to` on a queue
/// meets the n-th at the other end. A queue with transfers has nothing else
/// that waits for other ranks, so no receive stands in front of a sum.
struct Transfer {
  uint32_t axis = 0;
  int64_t from = 0, to = 0;
  ElementType type = ElementType::F32;
  Shape shape = {};
  int64_t tag = 0; ///< Which value it is: equal at both ends.
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

enum class CheckKind : uint8_t {
  Finite = 0, ///< Every element is finite: f64, f32 or bf16.
  Truth = 1   ///< Every element is true: i1.
};
inline constexpr unsigned kNumCheckKinds = 2;

/// Refuses the step if a value is not as it should be. No value that outlives
/// the step (an argument) may be written before every check is known to be
/// done, so that a refused step is taken back by doing nothing.
///
/// All ranks must refuse together. Where `axes` is empty the value is equal on
/// all ranks; else the verdicts of the group over `axes`, a collective of that
/// group, are combined: one refusal, and all refuse with the error of the first
/// member that did. Over the axes not named the value is equal.
///
/// A member without a source does not have the value: it takes part in the
/// verdict, and finds nothing wrong. Each group has a member with a source, and
/// ranks of every rank program: a verdict reaches all of them.
struct Check {
  CheckKind kind = CheckKind::Finite;
  ElementType type = ElementType::F32;
  std::optional<BufferRef> source = {};
  /// Finite: what is looked at ("loss" gives "loss is nan, expected a finite
  /// value"). Truth: the whole error.
  std::string message = {};
  std::vector<uint32_t> axes = {}; ///< Ascending.
};

struct Command;

/// Runs a body `count` times. It stands on every queue that its body uses: each
/// of these queues runs its part of the body again and again, after what comes
/// before the Repeat and before what comes behind it on that queue. There is no
/// barrier, neither at its ends nor between iterations.
///
/// Events belong to one iteration: recorded once in the body and waited for in
/// the same iteration. What other queues need from before or from behind the
/// body goes by events outside of it. Bytes that a moving reference
/// (Affine::perIteration) touches, one of the body writing them, belong to one
/// iteration. Repeats do not nest: an iteration is one number in offsets,
/// events and traces.
struct Repeat {
  int64_t count = 1; ///< 1 to kMaxIterations.
  std::vector<Command> body;

  // Defined where a Command is complete.
  explicit Repeat(int64_t count = 1);
  Repeat(const Repeat &);
  Repeat(Repeat &&) noexcept;
  Repeat &operator=(const Repeat &);
  Repeat &operator=(Repeat &&) noexcept;
  ~Repeat();
};
inline constexpr int64_t kMaxIterations = int64_t(1) << 20;

/// Events connect the queues of one rank: recorded once, waited for any number
/// of times, within one step, or within one iteration.
struct RecordEvent {
  uint32_t event = 0;
};
struct WaitEvent {
  uint32_t event = 0;
};

using Operation =
    std::variant<Launch, Gemm, Collective, Copy, Fill, Check, Repeat,
                 RecordEvent, WaitEvent, Attention, Convolution, Transfer>;

/// The result of an operator of the training step that a command writes.
struct Origin {
  int64_t op = -1; ///< The operator's `nn.id`; -1: of none.
  uint32_t result = 0;
};

/// What every operation has; those of libraries differ in nothing else than
/// their operands.
struct Command {
  uint32_t id = 0;           ///< Unique in its rank program; stable.
  std::string name = {};     ///< What the user would call it.
  std::string location = {}; ///< "file.py:12".
  uint32_t queue = 0;        ///< Index into the queues; of a Repeat: 0.
  int64_t flops = 0;
  int64_t bytes = 0; ///< Read and written; of a collective: sent by one rank.
  int32_t stage = 0;
  int32_t strand = 0; ///< -1: shared by all strands.
  /// A range of an arena that is the command's own while it runs; it finds and
  /// leaves anything there.
  std::optional<BufferRef> workspace = {};
  Operation operation = {};
  /// Of what it writes, in the order of accessesOf() (core/access.h), the
  /// workspace apart; what is missing at the end is of none.
  std::vector<Origin> origins = {};
};

inline Repeat::Repeat(int64_t count) : count(count) {}
inline Repeat::Repeat(const Repeat &) = default;
inline Repeat::Repeat(Repeat &&) noexcept = default;
inline Repeat &Repeat::operator=(const Repeat &) = default;
inline Repeat &Repeat::operator=(Repeat &&) noexcept = default;
inline Repeat::~Repeat() = default;

struct Arena {
  int64_t bytes = 0;
  uint32_t memorySpace = 0;
};

/// `commands` holds all queues in one order in which they could be enqueued: an
/// event is recorded before it is waited for. A body stands for its iterations,
/// one after the other.
struct RankProgram {
  std::vector<Arena> arenas = {};
  uint32_t numEvents = 0;
  std::vector<Command> commands = {};

  /// All commands, the body of a Repeat behind it. A place in this list is how
  /// a trace names a command. Valid until `commands` changes.
  std::vector<const Command *> listing() const;
};

struct Program {
  Target target = {};
  std::vector<Axis> mesh = {};
  int64_t micro = 1; ///< Number of strands; informational.
  std::vector<Queue> queues = {};
  std::vector<MemorySpace> memorySpaces = {};
  std::vector<CodeObject> codeObjects = {};
  std::vector<Constant> constants = {};
  std::vector<Argument> arguments = {};
  std::vector<Result> results = {};
  std::vector<RankProgram> rankPrograms = {};
  std::vector<uint32_t> rankToProgram = {}; ///< One per rank.

  int64_t numRanks() const;
  /// Coordinates of a rank, one per axis.
  std::vector<int64_t> coordinates(int64_t rank) const;
  int64_t evaluate(const Affine &value, int64_t rank,
                   int64_t iteration = 0) const;
  /// The ranks of the group of `rank` over `axes`, in group order.
  std::vector<int64_t> group(const std::vector<uint32_t> &axes,
                             int64_t rank) const;
  /// The ranks that send and receive in a transfer of `rank`.
  std::pair<int64_t, int64_t> ends(const Transfer &op, int64_t rank) const;
  /// The name of a command's kind: "launch", "gemm", "all_reduce",
  /// "check_finite", ...
  static std::string_view kindName(const Operation &operation);
};

/// Product of the extents.
int64_t numElements(const Shape &shape);

/// Whether a rank has a slice of a tensor of this form.
bool holds(const Program &program, const Form &form, int64_t rank);

/// What a rank that has a slice of the entry holds of it.
int64_t localBytes(const Argument &argument);
int64_t localBytes(const Result &result);

/// All that a rank holds: arguments, results that lie in none, constants, and
/// the arenas of its program.
int64_t heldBytes(const Program &program, int64_t rank);

/// The shape that one rank holds. Fails where an extent does not divide.
Expected<Shape> localShapeOf(const Program &program, const Shape &globalShape,
                             const Form &form);

/// Everything that can be known without running:
///  * forms, shapes, updates, ranks, spaces, queues, symbols' objects and axes
///    are consistent, and no number is too large for 64 bits;
///  * every buffer lies in its space, for every rank and iteration, and the
///    rank holds what it lies in;
///  * every event is recorded, once, before it is waited for, in its iteration;
///  * collectives and transfers agree on all ranks that take part, and all
///    ranks that run their listings in order come to their ends; checks are
///    those of all ranks, and their verdicts reach all rank programs;
///  * commands of different queues that touch the same bytes, one of them
///    writing, are ordered by events, in one iteration and from one to the
///    next;
///  * nothing is read from an arena or from a result before it was written; a
///    workspace holds nothing that may be read;
///  * what a command writes by strides has a place for each element;
///  * no argument is written before all checks are done.
/// Takes time in proportion to the commands, not to their pairs or iterations.
Status verifyProgram(const Program &program);

/// The bytes of a .tdm file. Deterministic.
Bytes serializeProgram(const Program &program);

/// Checks format, version and content hash, then verifyProgram().
Expected<Program> loadProgram(std::span<const uint8_t> bytes);

/// The same of bytes that this process made of a verified Program: it is not
/// verified again.
Expected<Program> loadMadeProgram(std::span<const uint8_t> bytes);

/// The content hash of a .tdm file, as text: what tells Programs apart.
std::string programHash(std::span<const uint8_t> bytes);

/// A listing for people: one line per argument, result and command.
std::string printProgram(const Program &program);

/// The features of this machine's CPU that `required` names and it lacks.
std::vector<std::string>
missingCpuFeatures(const std::vector<std::string> &required);

} // namespace tandem::rt

#endif // TANDEM_RT_PROGRAM_H
