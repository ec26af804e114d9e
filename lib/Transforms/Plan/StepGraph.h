//===- StepGraph.h - a training step as the planner sees it -----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Plain tables over the operators of `@step`: indices instead of pointers.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_STEPGRAPH_H
#define TANDEM_LIB_TRANSFORMS_PLAN_STEPGRAPH_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/NN/NN.h"
#include <map>
#include <memory>

namespace tandem::plan {

struct OperatorGroups;

using nn::PassKind;
using nn::Role;

/// Operand `operand` of operator `op`; operator `ops.size()` is the return.
struct Use {
  unsigned op;
  unsigned operand;
};

struct ValueNode {
  mlir::Value value;
  /// Operator that makes it, -1 for an argument of the step.
  int producer = -1;
  /// Number of the result or of the argument.
  unsigned index = 0;
  llvm::SmallVector<Use, 2> uses;
  double bytes = 0;
  /// Argument of which this is a view, through other views; -1 if none.
  int viewOf = -1;
  /// Whether the update sums it up, as the norm of gradients, or passes such a
  /// sum on: it may be unfinished there. Sums that come to the update are
  /// finished before it.
  bool isSummedInUpdate = false;
  /// Per axis, the form in which a pin of the user stores or makes it. Empty
  /// without pins.
  llvm::SmallVector<std::optional<spmd::AxisForm>, 0> pinned;

  /// Whether it lies in the host's memory: by a pin, an argument, or the new
  /// value of one; or what an operator sent there.
  bool isOnHost = false;

  /// Number among what is made in one place; an argument is one value.
  unsigned getResult() const { return producer < 0 ? 0 : index; }
};

/// What a pin wants a choice of sources to take.
enum class SourcePin : uint8_t { None, Again, Host };

struct OpNode {
  mlir::Operation *op;
  /// `nn.id`, -1 without one.
  int64_t id = -1;
  PassKind pass;
  /// Whether it only rearranges or converts operand 0.
  bool isView;
  llvm::SmallVector<unsigned, 4> operands, results;
  spmd::Rule rule;
  /// Chosen signature per axis of the mesh.
  llvm::SmallVector<spmd::Signature, 3> signatures;
  double flops = 0;
  /// Of `nn.either`: the operand that is taken.
  unsigned source = 0;
  /// Of `nn.either`: what a pin asks for.
  SourcePin sourcePin = SourcePin::None;
  /// A clone that only choices read, or other such clones.
  bool isOptional = false;
  /// Such a clone, or a choice, that nobody takes.
  bool isLeftOut = false;

  bool isEither() const { return mlir::isa<nn::EitherOp>(op); }
};

/// An `nn.either` of a checkpointed region (`tandem-offer-saved`). It is no
/// operator of the graph: its readers read its source.
struct RegionChoice {
  nn::EitherOp op;
  /// `nn.id`, -1 without one.
  int64_t id = -1;
  unsigned source = 0;
  /// The source's value; -1 where nobody reads the choice.
  int value = -1;
};

struct ArgumentNode {
  Role role;
  llvm::StringRef name;
  /// The model's own name, of which `name` may be a part (`nn.part`).
  llvm::StringRef whole;
  mlir::RankedTensorType type;
  /// Batch dimension of an input, or -1.
  int64_t batchDim = -1;
  /// The parameter whose shape and forms a state has, or -1.
  int parameter = -1;
  /// How it is stored, per axis of the mesh.
  spmd::Forms forms;
};

struct ResultNode {
  unsigned value;
  /// The argument whose new value it is, or the parameter whose gradient; -1.
  int argument = -1;
  /// Whether it is written into the memory of that argument.
  bool isUpdate = false;
};

/// Whether an operand or a result is split on the signature's axis, and whether
/// all of them are `full` there.
bool isSplit(const spmd::Signature &signature);
bool isFull(const spmd::Signature &signature);

/// `[8, 16]`.
std::string printShape(mlir::RankedTensorType type);

class StepGraph {
public:
  /// On no mesh; groups the operators. Of its regions' choices these sources
  /// are taken, or what the step says.
  explicit StepGraph(mlir::func::FuncOp step,
                     llvm::ArrayRef<unsigned> ofRegions = {});
  StepGraph(mlir::func::FuncOp step, spmd::MeshAttr mesh)
      : StepGraph(StepGraph(step).onMesh(mesh)) {}

  /// The same step on a mesh: everything is `full`.
  StepGraph onMesh(spmd::MeshAttr mesh) const;
  /// The same step on the same mesh, with these sources of its regions'
  /// choices: everything is `full`.
  StepGraph withSources(llvm::ArrayRef<unsigned> ofRegions) const {
    return StepGraph(step, ofRegions).onMesh(mesh);
  }
  llvm::SmallVector<unsigned> getRegionSources() const {
    return llvm::map_to_vector(
        regions, [](const RegionChoice &choice) { return choice.source; });
  }

  mlir::func::FuncOp step;
  /// Of what the step computes (Analysis/HashStep.h).
  std::string hash;
  spmd::MeshAttr mesh;
  std::vector<OpNode> ops;
  /// Arguments come first: value i is argument i.
  std::vector<ValueNode> values;
  std::vector<ArgumentNode> arguments;
  std::vector<ResultNode> results;
  std::vector<RegionChoice> regions;
  /// Of the step, but not of the graph: choices of regions, and what nobody
  /// reads because of them.
  llvm::SmallVector<mlir::Operation *, 0> unread;

  /// Shared by all graphs of the step that have the same pins.
  const OperatorGroups &getGroups() const { return *groups; }
  /// Groups the operators anew, as pins on what they make ask for.
  void group();
  void shareGroups(const StepGraph &other) { groups = other.groups; }
  /// Whether it has an offer to make values again.
  bool hasChoices() const {
    return llvm::any_of(ops, [](const OpNode &op) { return op.isEither(); });
  }
  /// Whether operand `source` of a choice waited in the host's memory.
  bool isFromHost(const OpNode &either, unsigned source) const;
  /// Whether pins let a choice take this operand.
  bool mayTake(const OpNode &either, unsigned source) const;
  /// Whether a reader may take another value instead.
  bool isChosenOf(unsigned value) const;
  /// Whether all that reads it adds it to what a loop carries, at once.
  bool isTerm(unsigned value) const;
  /// Finds what nobody takes as sources are chosen.
  void findLeftOut();
  /// Whether the use takes nothing: the reader has another source, or is not
  /// there.
  bool isLeftOut(const Use &use) const {
    return use.op < ops.size() &&
           (ops[use.op].isLeftOut ||
            (ops[use.op].isEither() && ops[use.op].source != use.operand));
  }
  /// `nn.matmul#17`, and `nn.layer_norm#3:1` for a second result: what
  /// problems, explanations and pins call what an operator makes.
  std::string getMadeName(unsigned value) const;
  /// Whether a pin says the form of the value on the axis.
  bool isPinned(unsigned value, unsigned axis) const {
    const auto &pinned = values[value].pinned;
    return !pinned.empty() && pinned[axis].has_value();
  }
  /// Whether what is made has the forms that pins ask for on the axis.
  bool obeysPins(const OpNode &op, const spmd::Signature &signature,
                 unsigned axis) const;
  /// Role and name of an argument: `parameter layers.0.w1`.
  std::string describeArgument(unsigned index) const;
  mlir::Location getLoc() const { return mlir::func::FuncOp(step).getLoc(); }
  /// The operator with this `nn.id`.
  std::optional<unsigned> findOperator(int64_t id) const;

  /// The form along `axis` of what `value`'s producer makes.
  spmd::AxisForm getForm(unsigned value, unsigned axis) const;
  spmd::Forms getForms(unsigned value) const;
  /// The forms in which a use takes its value; as it is if it takes nothing.
  spmd::Forms getWanted(const Use &use) const;
  /// The form in which result `index` of the step is returned.
  spmd::AxisForm getResultForm(unsigned index, unsigned axis) const;
  /// The form of the view `value` if its argument is stored as `stored` and no
  /// view changes the form; none where some view has no such signature.
  std::optional<spmd::AxisForm>
  getViewForm(unsigned value, spmd::AxisForm stored, int64_t axisSize) const;
  /// The stored form of the argument that gives the view `value` this form.
  std::optional<spmd::AxisForm>
  getStoredForm(unsigned value, spmd::AxisForm viewed, int64_t axisSize) const;
  /// Whether argument `index` can be stored so on `axis`, the forms on the
  /// other axes being as they are.
  bool canStore(unsigned index, unsigned axis, spmd::AxisForm form,
                std::string *reason = nullptr) const;
  /// In which forms it can be stored so; `full` comes first.
  llvm::SmallVector<spmd::AxisForm> listStorable(unsigned index,
                                                 unsigned axis) const;

private:
  void addArguments();
  void addRegions(llvm::ArrayRef<unsigned> sources);
  void addOperators();
  void findOptional();
  void addResults();

  std::shared_ptr<const OperatorGroups> groups;
  std::shared_ptr<std::map<int64_t, unsigned>> byId;
};

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_STEPGRAPH_H
