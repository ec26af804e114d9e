//===- ReuseViews.cpp - reuse of forward views ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Views.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "tandem/Transforms/Import/Import.h"
#include "tandem/Transforms/StepPass.h"
#include "llvm/ADT/SetVector.h"

namespace tandem {
#define GEN_PASS_DEF_REUSEVIEWSPASS
#include "tandem/Transforms/Import/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::nn;

namespace {
/// Where the forward pass uses an activation only through one view, its
/// backward pass views that view. If the view changes form (tokens that go to
/// their experts), the changed copy is the one that exists, and the backward
/// pass does not ask for a second one. What the backward pass uses without a
/// view it gets from a forward view that only reshapes, so that it keeps one
/// tensor, not two that share a buffer.
struct ReuseViewsPass
    : tandem::StepPass<tandem::impl::ReuseViewsPassBase<ReuseViewsPass>> {
  LogicalResult runOnStep(func::FuncOp step) override;
};

/// Follows dimensions through reshapes and permutations: each dimension of the
/// start and of the current shape is a list of atoms, from major to minor.
class AtomTracker {
public:
  explicit AtomTracker(ArrayRef<int64_t> shape) {
    for (int64_t size : shape) {
      SmallVector<int> dim;
      if (size != 1)
        dim.push_back(addAtom(size));
      start.push_back(dim);
    }
    current = start;
  }
  /// False where the shapes have no common factors.
  bool reshape(ArrayRef<int64_t> shape);
  void permute(ArrayRef<int64_t> permutation) {
    auto before = current;
    for (auto [to, from] : llvm::enumerate(permutation))
      current[to] = before[from];
  }
  /// Makes the current tensor from `value`, which has the starting shape.
  Value create(RewriterBase &rewriter, Operation *root, Value value,
               ArrayRef<int64_t> shape) const;

private:
  int addAtom(int64_t size) {
    sizes.push_back(size);
    return sizes.size() - 1;
  }
  void splitAtom(int atom, int64_t major);
  std::optional<SmallVector<int64_t>> findPermutation() const;

  SmallVector<SmallVector<int>> start, current;
  SmallVector<int64_t> sizes;
};
} // namespace

/// Cuts `atom` into a major part of size `major` and the rest.
void AtomTracker::splitAtom(int atom, int64_t major) {
  int minor = addAtom(sizes[atom] / major);
  sizes[atom] = major;
  for (auto *dims : {&start, &current})
    for (auto &dim : *dims)
      if (auto *it = llvm::find(dim, atom); it != dim.end())
        dim.insert(it + 1, minor);
}

bool AtomTracker::reshape(ArrayRef<int64_t> shape) {
  size_t next = 0;
  auto flatten = [&] {
    SmallVector<int> atoms;
    for (const auto &dim : current)
      llvm::append_range(atoms, dim);
    return atoms;
  };
  SmallVector<size_t> ends;
  for (int64_t size : shape) {
    while (size > 1) {
      int atom = flatten()[next];
      if (sizes[atom] > size) {
        if (sizes[atom] % size != 0)
          return false;
        splitAtom(atom, size);
      }
      if (size % sizes[atom] != 0)
        return false;
      size /= sizes[atom];
      ++next;
    }
    ends.push_back(next);
  }
  SmallVector<int> atoms = flatten();
  current.clear();
  size_t begin = 0;
  for (size_t end : ends) {
    current.emplace_back(atoms.begin() + begin, atoms.begin() + end);
    begin = end;
  }
  return true;
}

/// The permutation of the starting dimensions that gives the current ones, up
/// to dimensions of size 1, if there is one.
std::optional<SmallVector<int64_t>> AtomTracker::findPermutation() const {
  SmallVector<int64_t> permutation;
  for (const auto &dim : current) {
    if (dim.empty())
      continue;
    const auto *it = llvm::find(start, dim);
    if (it == start.end())
      return std::nullopt;
    permutation.push_back(it - start.begin());
  }
  for (auto [index, dim] : llvm::enumerate(start))
    if (dim.empty())
      permutation.push_back(index);
  return permutation;
}

Value AtomTracker::create(RewriterBase &rewriter, Operation *root, Value value,
                          ArrayRef<int64_t> shape) const {
  auto permutation = findPermutation();
  if (!permutation) {
    SmallVector<int64_t> atoms;
    llvm::SmallDenseMap<int, int64_t> position;
    for (const auto &dim : start)
      for (int atom : dim) {
        position[atom] = atoms.size();
        atoms.push_back(sizes[atom]);
      }
    permutation.emplace();
    for (const auto &dim : current)
      for (int atom : dim)
        permutation->push_back(position[atom]);
    value = createReshape(rewriter, root, value, atoms);
  }
  if (!llvm::is_sorted(*permutation))
    value = createPermute(rewriter, root, value, *permutation);
  return createReshape(rewriter, root, value, shape);
}

//===----------------------------------------------------------------------===//
// Chains of views
//===----------------------------------------------------------------------===//

static bool isRearrangement(Operation *op) {
  return op && op->hasTrait<Rearrangement>();
}

/// The operators between `source` and `value`, in order.
static SmallVector<Operation *> getChain(Value source, Value value) {
  SmallVector<Operation *> chain;
  for (; value != source; value = value.getDefiningOp()->getOperand(0))
    chain.push_back(value.getDefiningOp());
  std::reverse(chain.begin(), chain.end());
  return chain;
}

static Value getSource(Value value) {
  while (isRearrangement(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

/// Views of `value` that operators of the pass use which are no views.
static void findEnds(Value value, PassKind pass, llvm::SetVector<Value> &ends) {
  for (Operation *user : value.getUsers()) {
    if (getPass(user) != pass)
      continue;
    if (isRearrangement(user))
      findEnds(user->getResult(0), pass, ends);
    else
      ends.insert(value);
  }
}

static bool track(AtomTracker &tracker, Operation *op) {
  if (auto permute = dyn_cast<PermuteOp>(op)) {
    tracker.permute(permute.getPermutation());
    return true;
  }
  return tracker.reshape(getShape(op->getResult(0)));
}

static bool trackInverse(AtomTracker &tracker, Operation *op) {
  if (auto permute = dyn_cast<PermuteOp>(op)) {
    tracker.permute(invertPermutationVector(permute.getPermutation()));
    return true;
  }
  return tracker.reshape(getShape(op->getOperand(0)));
}

/// Makes `view` from `end`, another view of the same source.
static void reroot(Value source, Value end, Value view) {
  Operation *root = view.getDefiningOp();
  AtomTracker tracker(getShape(end));
  SmallVector<Operation *> back = getChain(source, end);
  for (Operation *op : llvm::reverse(back))
    if (!trackInverse(tracker, op))
      return;
  for (Operation *op : getChain(source, view))
    if (!track(tracker, op))
      return;
  IRRewriter rewriter(root);
  rewriter.replaceOp(root, tracker.create(rewriter, root, end, getShape(view)));
}

/// The one view through which forward operators use `source`, if it is another
/// value and made by the forward pass.
static Value findOnlyEnd(Value source) {
  Operation *producer = source.getDefiningOp();
  if (!producer || getPass(producer) != PassKind::Forward)
    return {};
  llvm::SetVector<Value> ends;
  findEnds(source, PassKind::Forward, ends);
  return ends.size() == 1 && ends.front() != source ? ends.front() : Value();
}

/// Backward operators that use `source` itself use a reshape of its forward
/// view instead.
static void reuseReshape(Value source) {
  Value end = findOnlyEnd(source);
  if (!end || !llvm::all_of(getChain(source, end), llvm::IsaPred<ReshapeOp>))
    return;
  for (OpOperand &use : llvm::make_early_inc_range(source.getUses())) {
    Operation *user = use.getOwner();
    if (getPass(user) != PassKind::Backward || isRearrangement(user))
      continue;
    IRRewriter rewriter(user);
    use.set(createReshape(rewriter, user, end, getShape(source)));
  }
}

static bool isForward(Operation *op) {
  return getPass(op).value_or(PassKind::Forward) == PassKind::Forward;
}

/// Whether later passes read what a forward reshape makes, which they had
/// better make of its operand: no forward operator reads it, or kernels alone
/// do and the operand is saved, so that one kernel would write both.
static bool mayBeMadeLater(Operation *op) {
  auto isKernel = [](Operation *user) {
    return !isForward(user) || !isa<LibraryOpInterface>(user);
  };
  auto isSaved = [](Value value) {
    return !llvm::all_of(value.getUsers(), isForward);
  };
  return isa<ReshapeOp>(op) && isForward(op) && isSaved(op->getResult(0)) &&
         (llvm::none_of(op->getUsers(), isForward) ||
          (llvm::all_of(op->getUsers(), isKernel) &&
           isSaved(op->getOperand(0))));
}

/// Makes it where the first of the later passes' operators reads it.
static void makeLater(Operation *op) {
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : op->getUses())
    if (!isForward(use.getOwner()))
      uses.push_back(&use);
  Operation *first = uses.front()->getOwner();
  for (OpOperand *use : uses)
    if (use->getOwner()->isBeforeInBlock(first))
      first = use->getOwner();
  Operation *made = OpBuilder(first).clone(*op);
  setPass(made, *getPass(first));
  for (OpOperand *use : uses)
    use->set(made->getResult(0));
  if (op->use_empty())
    op->erase();
}

LogicalResult ReuseViewsPass::runOnStep(func::FuncOp step) {
  Block &block = step.getBody().front();
  SmallVector<Value> views;
  for (Operation &op : block) {
    auto isOtherUser = [](Operation *user) { return !isRearrangement(user); };
    if (isRearrangement(&op) && getPass(&op) == PassKind::Backward &&
        llvm::any_of(op.getUsers(), isOtherUser))
      views.push_back(op.getResult(0));
  }
  for (Value view : views) {
    Value source = getSource(view);
    if (Value end = findOnlyEnd(source))
      reroot(source, end, view);
  }
  for (Operation &op : llvm::make_early_inc_range(block))
    if (!isRearrangement(&op) && op.getNumResults() == 1)
      reuseReshape(op.getResult(0));
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
    else if (mayBeMadeLater(&op))
      makeLater(&op);
  return success();
}
