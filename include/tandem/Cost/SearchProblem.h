//===- SearchProblem.h - problem of a plan search ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A search problem is plain data: the operators of a step in one fixed
// topological order (forward, backward, updates), for each the signatures that
// it may have and what they cost, the mesh with the prices of its collectives,
// and the limits. It holds all that an algorithm may know; it prints as text
// and parses back to the same problem (docs/plan-files.md describes the text).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COST_SEARCHPROBLEM_H
#define TANDEM_COST_SEARCHPROBLEM_H

#include "tandem/Cost/Layout.h"
#include <limits>
#include <vector>

namespace tandem::cost {

/// Which definition of a plan's cost holds (docs/plan-files.md).
enum class Accounting : uint8_t { HidupSerial, HidupOverlapped, Tandem, Oases };

/// As texts of problems and plans have it: `hidup-serial`.
std::string_view getAccountingName(Accounting accounting);

enum class Pass : uint8_t { Forward, Backward, Update };
constexpr unsigned kNumPasses = 3;
std::string_view getPassName(Pass pass);

/// Changes of form along one axis that take time. On a space axis they are
/// collectives. On the time axis `AllReduce` is the sum over the strands and
/// `AllGather` their concatenation, on the device's own memory.
enum class Change : uint8_t { AllGather, ReduceScatter, AllReduce, AllToAll };
constexpr unsigned kNumChanges = 4;
/// Of a space axis: `all-gather`.
std::string_view getChangeName(Change change);

/// Of a device's memory.
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

/// seconds = latency + bytes * secondsPerByte, bytes being what one device
/// would hold of the tensor (of one strand of it) if this axis were `full`.
struct ChangeRate {
  double latency = 0;        // s
  double secondsPerByte = 0; // s/B
  bool operator==(const ChangeRate &) const = default;
};

struct Axis {
  std::string name;
  int64_t size = 1;
  /// Points are microbatches, not devices. The last axis, if there is one.
  bool isTime = false;
  /// The communication queue that this axis' collectives run on.
  unsigned queue = 0;
  std::array<ChangeRate, kNumChanges> rates;
  bool operator==(const Axis &) const = default;
};

struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  int64_t elementBytes = 4;
  /// How often its changes of form happen: once per iteration, if they are in a
  /// loop. It is held once. (Seconds of operators count all iterations.)
  int64_t times = 1;
  /// A tensor before this one, of as many bytes, whose memory it is when both
  /// lie alike: a reshape, say. -1 if it has memory of its own.
  int viewOf = -1;
  /// Made and read within one kernel: holds nothing as it is produced; its
  /// copies do.
  bool isInKernel = false;
  /// An operator before its producer from which on it is held: the first one of
  /// a loop that carries it or of a step that returns it. -1 if it is held from
  /// its producer on, as is what may be terms over time; `kIfRead` if so, but
  /// only where a plan has a reader of it: a kernel writes it for those alone.
  static constexpr int kIfRead = -2;
  int heldFrom = -1;
  unsigned getFirstHeld(unsigned producer) const {
    return heldFrom < 0 ? producer : heldFrom;
  }
  bool operator==(const Tensor &) const = default;
};

/// One way to compute an operator, on all axes together. `seconds` and
/// `workspace` (bytes) are those of one device: of one strand, if some operand
/// or result is not `full` over time, else of the one time that it is computed.
struct Signature {
  std::vector<Layout> operands, results;
  double seconds = 0;
  int64_t workspace = 0;
  bool operator==(const Signature &) const = default;
};

/// Operators of equal rule and shapes share their signatures.
using SignatureSet = std::vector<Signature>;

/// An operator; arguments of the step are operators without operands, whose
/// signatures are the forms in which they may be stored, and results of the
/// step are operators without results.
struct Operator {
  enum class Kind : uint8_t {
    /// A batch or constant argument: costs no resident memory.
    Input,
    /// A parameter, state or buffer: resident, in the form it is stored in.
    Resident,
    Compute,
    /// Returns its operands from the step.
    Output
  };
  Kind kind = Kind::Compute;
  Pass pass = Pass::Forward;
  std::string name;
  /// Where the user wrote it, `file:line`; may be empty.
  std::string location;
  /// Where operands are read and results made, if it stands for several lines:
  /// empty, or one for each.
  std::vector<std::string> readLocations, madeLocations;
  /// Index into `SearchProblem::signatureSets`.
  unsigned signatureSet = 0;
  /// Indices into `SearchProblem::tensors`.
  std::vector<unsigned> operands, results;
  /// The forward operator of which this one computes the gradient (or, of a
  /// parameter, the update); -1 if none. A hint for the order of a search; it
  /// means nothing for legality or cost.
  int attachedTo = -1;
  /// Whether it makes values again that were made before: a plan may compute it
  /// beside collectives of its stage (Cost.h, *Ahead*).
  bool isAgain = false;
  /// Whether it stands for an argument of the step, which exists before the
  /// first stage.
  bool isArgument() const {
    return kind == Kind::Input || kind == Kind::Resident;
  }
  const std::string &getReadLocation(unsigned operand) const {
    return readLocations.empty() ? location : readLocations[operand];
  }
  const std::string &getMadeLocation(unsigned result) const {
    return madeLocations.empty() ? location : madeLocations[result];
  }
  bool operator==(const Operator &) const = default;
};

struct SearchProblem {
  Accounting accounting = Accounting::Tandem;
  /// Space axes in the order of the mesh, then at most one time axis.
  std::vector<Axis> axes;
  /// Slow-down of computation beside a collective, and of the collective
  /// beside computation: a and b of the cost's definition, each >= 1.
  double computeSlowdown = 1, collectiveSlowdown = 1;
  /// What a slot that takes from the waiting queue loses to a further piece,
  /// alpha, in s. A schedule keeps up if it is at least `getLeastPieceLatency`
  /// (Pieces.h), as in the problems of compiled steps.
  double pieceLatency = 0;
  /// Bytes of one device.
  int64_t memoryLimit = kNoLimit;
  /// What one strand holds of a tensor takes a multiple of so many bytes.
  int64_t alignment = 1;
  /// Identifies the graph that the problem was made from; may be empty.
  std::string graphHash;
  std::vector<Tensor> tensors;
  std::vector<SignatureSet> signatureSets;
  std::vector<Operator> operators;
  /// Pairs of operators that take signatures of one index: the form in which a
  /// parameter is stored and the form in which its new value is returned.
  std::vector<std::pair<unsigned, unsigned>> ties;

  bool operator==(const SearchProblem &) const = default;

  const SignatureSet &getSignatures(unsigned op) const {
    return signatureSets[operators[op].signatureSet];
  }
  /// Index of the time axis, or -1.
  int getTimeAxis() const {
    return !axes.empty() && axes.back().isTime ? int(axes.size()) - 1 : -1;
  }
  /// Number of strands, k.
  int64_t getNumStrands() const {
    return getTimeAxis() < 0 ? 1 : axes.back().size;
  }
  /// Whether an operator with the signature depends on the strand: some operand
  /// or result is not `full` over time.
  bool isOverTime(const Signature &signature) const;
  unsigned getNumQueues() const;
  /// Whether some operator makes values again.
  bool hasAgain() const;
  /// Operators that take signatures of one index, each group in their order,
  /// and the groups in that of their first ones. Who is not tied is alone.
  std::vector<std::vector<unsigned>> getTieGroups() const;
  /// Operator that makes each tensor.
  std::vector<unsigned> getProducers() const;
  /// Per operator, whether it returns what is written into the memory of a
  /// resident argument, to which it is tied.
  std::vector<bool> getTiedOutputs() const;

  /// The tensor in whose memory a view lies, or the tensor itself. What is
  /// inside of a kernel lends nothing.
  unsigned getRoot(unsigned tensor) const;

  /// Bytes that one device holds of `tensor` in this layout, all strands
  /// together: divided by the sizes of the space axes that split it, times k if
  /// it is `reduce` over time; each strand's part is rounded up to `alignment`.
  int64_t getBytes(unsigned tensor, const Layout &layout) const;
  /// Whether every dimension divides by the axes that split it together. The
  /// `hidup-*` accountings only ask that the dimension exists.
  bool isDivisible(unsigned tensor, const Layout &layout) const;
};

/// The problem as text; equal problems give equal text, to the byte.
std::string print(const SearchProblem &problem);

/// Parses the text of a problem and checks that it is one: indices in range,
/// each tensor made once and before its use, as many forms as operands, passes
/// in order, dimensions divisible, rates not negative, ties between sets of
/// equal size. On failure returns nothing and sets `error` to one line
/// `NAME:LINE: what was found, what was expected`.
std::optional<SearchProblem> parseSearchProblem(std::string_view text,
                                                std::string_view name,
                                                std::string &error);

/// `data='gather(0), full -> gather(0)' micro='full, full -> full'`: one quoted
/// part per axis of the mesh.
std::string print(const SearchProblem &problem, const Signature &signature);
/// `data=gather(0),micro=full`; axes that are `full` are left out; `full` if
/// all are.
std::string print(const SearchProblem &problem, const Layout &layout);

/// XXH3, 128 bits in hex, of the problem's text without prices, limit and graph
/// hash: what a plan is bound to. Re-costing on another cluster keeps it.
std::string getStructureHash(const SearchProblem &problem);

/// XXH3, 64 bits in hex, of all of the problem's text and of a bound for its
/// plans, in s: what a plan file says beside its bound. Where another problem
/// has the same structure, or somebody changed the number, it is another one.
std::string getProofHash(const SearchProblem &problem, double bound);

} // namespace tandem::cost

#endif // TANDEM_COST_SEARCHPROBLEM_H
