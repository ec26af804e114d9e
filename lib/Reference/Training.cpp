//===- Training.cpp - runs a training step many times ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/Training.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/MeshText.h"
#include "llvm/Support/Format.h"
#include <cmath>

using namespace mlir;
using tandem::nn::Role;

namespace tandem::reference {

/// Of a tensor, and of all arguments: two gigabytes.
static constexpr int64_t kMaxElements = int64_t(1) << 28;
static constexpr int64_t kMaxPoints = 1 << 14;

std::string getKey(DictionaryAttr attributes, StringRef otherwise,
                   unsigned index) {
  std::optional<Role> role = nn::getRole(attributes);
  if (!role)
    return (otherwise + "/" + Twine(index)).str();
  auto part = nn::getPart(attributes);
  StringRef name = part ? part.getName() : nn::getTensorName(attributes);
  return (stringifyRole(*role) + "/" + name).str();
}

/// The type of the whole of which an argument or result is a part; of what is
/// cut into iterations, with these in one dimension.
static RankedTensorType getWholeType(RankedTensorType type,
                                     DictionaryAttr attributes) {
  if (auto dim = getInteger(attributes, spmd::kIteratedAttrName)) {
    SmallVector<int64_t> shape(type.getShape());
    shape[*dim + 1] *= shape[*dim];
    shape.erase(shape.begin() + *dim);
    return RankedTensorType::get(shape, type.getElementType());
  }
  auto part = nn::getPart(attributes);
  return part ? RankedTensorType::get(part.getShape(), type.getElementType())
              : type;
}

static SmallVector<int64_t> getOffsets(nn::PartAttr part) {
  SmallVector<int64_t> offsets(part.getShape().size(), 0);
  offsets[part.getDim()] = part.getOffset();
  return offsets;
}

/// Puts a value, which may be a part, to the whole ones.
static void put(TensorMap &wholes, const std::string &key,
                DictionaryAttr attributes, Tensor tensor) {
  auto part = nn::getPart(attributes);
  if (!part) {
    wholes[key] = std::move(tensor);
    return;
  }
  Tensor &whole =
      wholes.try_emplace(key, part.getShape(), tensor.getElementType())
          .first->second;
  insertBlock(whole, tensor, getOffsets(part));
}

//===----------------------------------------------------------------------===//
// Values that are made up
//===----------------------------------------------------------------------===//

namespace {
/// SplitMix64 (Steele et al., OOPSLA 2014).
class Random {
public:
  explicit Random(uint64_t state) : state(state) {}
  uint64_t next() {
    uint64_t z = (state += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(next() >> 11) * 0x1p-53;
  }
  int64_t integer(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(next() % (high - low + 1));
  }

private:
  uint64_t state;
};

struct Range {
  double low, high;
};
} // namespace

/// FNV-1a, so that a value depends on its key, not on its place.
static uint64_t hashKey(StringRef key) {
  uint64_t hash = 0xCBF29CE484222325;
  for (char c : key)
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3;
  return hash;
}

/// Where floating-point values of a role lie. State is not negative, because
/// optimizers take roots of it; buffers are not zero, because variances are.
static Range getFloatRange(std::optional<Role> role) {
  if (role == Role::LearningRate)
    return {0.01, 0.01};
  if (role == Role::Step)
    return {0, 0};
  if (role == Role::State)
    return {0, 0.01};
  if (role == Role::Buffer)
    return {0.5, 1.5};
  return role == Role::Parameter ? Range{-0.25, 0.25} : Range{-1, 1};
}

static std::pair<int64_t, int64_t> getIntegerRange(DictionaryAttr attributes,
                                                   std::optional<Role> role) {
  auto range = nn::getRange(attributes);
  if (range && isa<IntegerAttr>(range->first))
    return {cast<IntegerAttr>(range->first).getInt(),
            cast<IntegerAttr>(range->second).getInt()};
  return role == Role::Input || !role ? std::pair<int64_t, int64_t>{0, 1}
                                      : std::pair<int64_t, int64_t>{0, 0};
}

Tensor makeValue(RankedTensorType type, DictionaryAttr attributes,
                 StringRef key, uint64_t seed) {
  Tensor tensor(type.getShape(), type.getElementType());
  std::optional<Role> role = nn::getRole(attributes);
  Random random(hashKey(key) ^ (seed * 0x9E3779B97F4A7C15));
  Range floats = getFloatRange(role);
  auto [low, high] = getIntegerRange(attributes, role);
  for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
    if (tensor.isFloat())
      tensor.setDouble(i, random.uniform(floats.low, floats.high));
    else
      tensor.setInteger(i, role == Role::Seed ? static_cast<int64_t>(seed)
                                              : random.integer(low, high));
  }
  return tensor;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

namespace {
class Training {
public:
  Training(func::FuncOp function, const TrainingOptions &options)
      : function(function), options(options) {}

  LogicalResult load();
  LogicalResult runStep(unsigned step);
  TrainingResult takeResult() { return std::move(result); }

private:
  DictionaryAttr getAttributes(unsigned argument) {
    return function.getArgAttrDict(argument);
  }
  bool isInput(unsigned argument) {
    return nn::getRole(getAttributes(argument)) == Role::Input;
  }
  std::string getBatchKey(unsigned argument, unsigned step);
  FailureOr<Tensor> getWhole(unsigned argument, unsigned step);
  FailureOr<Tensor> getArgument(unsigned argument, unsigned step);
  LogicalResult takeResults(std::vector<Tensor> tensors, unsigned step);
  LogicalResult refuse(ArrayRef<Tensor> tensors, unsigned step);

  func::FuncOp function;
  const TrainingOptions &options;
  /// What the file has; without a file all values are made up.
  TensorMap data;
  unsigned numBatches = 0;
  TrainingResult result;
};
} // namespace

LogicalResult Training::load() {
  if (!options.data.empty()) {
    auto read = readSafeTensors(options.data, function.getContext());
    if (!read)
      return function.emitError(llvm::toString(read.takeError()));
    data = std::move(*read);
  }
  for (const auto &[key, tensor] : data) {
    unsigned batch;
    StringRef name = StringRef(key).split('/').first;
    if (name.consume_front("batch.") && !name.getAsInteger(10, batch))
      numBatches = std::max(numBatches, batch + 1);
  }
  return success();
}

std::string Training::getBatchKey(unsigned argument, unsigned step) {
  unsigned batch = numBatches ? step % numBatches : step;
  return ("batch." + Twine(batch) + "/" +
          nn::getTensorName(getAttributes(argument)))
      .str();
}

/// The tensor of the model that the argument is or is a part of.
FailureOr<Tensor> Training::getWhole(unsigned argument, unsigned step) {
  std::string key = getKey(getAttributes(argument), "argument", argument);
  if (auto it = result.values.find(key); it != result.values.end())
    return it->second;
  bool isBatch = isInput(argument);
  if (isBatch)
    key = getBatchKey(argument, step);
  if (auto it = data.find(key); it != data.end())
    return it->second;
  if (!options.data.empty())
    return function.emitError("argument ")
           << argument << " needs '" << key << "', which '" << options.data
           << "' does not have";
  return makeValue(getWholeType(getArgumentLayout(function, argument),
                                getAttributes(argument)),
                   getAttributes(argument), key, options.seed);
}

FailureOr<Tensor> Training::getArgument(unsigned argument, unsigned step) {
  FailureOr<Tensor> whole = getWhole(argument, step);
  auto part = nn::getPart(getAttributes(argument));
  if (succeeded(whole) && !isInput(argument))
    result.values.try_emplace(
        getKey(getAttributes(argument), "argument", argument), *whole);
  if (failed(whole) || !part)
    return whole;
  if (whole->getShape() != part.getShape())
    return function.emitError("argument ")
           << argument << " is a part of '" << part.getName()
           << "', which has not the shape that 'nn.part' says";
  return extractBlock(*whole, getOffsets(part),
                      getArgumentLayout(function, argument).getShape());
}

/// The error of the first check that is not true.
LogicalResult Training::refuse(ArrayRef<Tensor> tensors, unsigned step) {
  for (auto [index, tensor] : llvm::enumerate(tensors)) {
    DictionaryAttr attributes = function.getResultAttrDict(index);
    if (nn::getRole(attributes) != Role::Check)
      continue;
    for (int64_t i = 0; i < tensor.getNumElements(); ++i)
      if (tensor.getDouble(i) == 0)
        return function.emitError("step ")
               << step << ": " << getKey(attributes, "check", index);
  }
  return success();
}

LogicalResult Training::takeResults(std::vector<Tensor> tensors,
                                    unsigned step) {
  result.losses.emplace_back();
  if (failed(refuse(tensors, step)))
    return failure();
  for (auto [index, tensor] : llvm::enumerate(tensors)) {
    DictionaryAttr attributes = function.getResultAttrDict(index);
    std::string key = getKey(attributes, "result", index);
    if (nn::getRole(attributes) == Role::Loss && tensor.getNumElements() == 1) {
      double loss = tensor.getDouble(0);
      if (!std::isfinite(loss))
        return function.emitError("step ")
               << step << ": '" << key << "' is " << std::to_string(loss)
               << ", expected a finite value";
      result.losses.back().emplace_back(key, loss);
    }
    if (std::optional<int64_t> updated = nn::getUpdates(attributes))
      put(result.values, getKey(getAttributes(*updated), "argument", *updated),
          getAttributes(*updated), tensor);
    put(result.results, key, attributes, std::move(tensor));
  }
  return success();
}

LogicalResult Training::runStep(unsigned step) {
  std::vector<Tensor> arguments;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    FailureOr<Tensor> argument = getArgument(i, step);
    if (failed(argument))
      return failure();
    arguments.push_back(std::move(*argument));
  }
  bool isLast = step + 1 == options.steps;
  auto results = interpret(function, spmd::getMesh(function), arguments,
                           isLast ? options.recorder : nullptr);
  if (failed(results))
    return failure();
  return takeResults(std::move(*results), step);
}

static FailureOr<func::FuncOp> findEntry(ModuleOp module, StringRef name) {
  if (auto function = module.lookupSymbol<func::FuncOp>(name))
    return function;
  auto functions = llvm::to_vector(module.getOps<func::FuncOp>());
  bool isDefault = name == TrainingOptions().entry;
  if (isDefault && functions.size() == 1 && !functions.front().isExternal())
    return functions.front();
  return module.emitError("has no function '") << name << "'";
}

/// Elements of a tensor of this type, at most `kMaxElements` + 1.
static int64_t countElements(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape() ||
      llvm::is_contained(tensor.getShape(), 0))
    return 0;
  int64_t elements = 1;
  for (int64_t size : tensor.getShape()) {
    if (size > kMaxElements / elements)
      return kMaxElements + 1;
    elements *= size;
  }
  return elements;
}

/// All values are held in memory, eight bytes an element, on every point.
static LogicalResult checkSizes(func::FuncOp function) {
  auto check = [&](Location location, Type type) -> LogicalResult {
    if (countElements(type) <= kMaxElements)
      return success();
    return emitError(location)
           << "found a " << type << ", expected at most " << kMaxElements
           << " elements, which the interpreter holds in memory";
  };
  if (auto mesh = spmd::getMesh(function);
      mesh && mesh.getNumRanks() * mesh.getNumStrands() > kMaxPoints)
    return function.emitError("is for ")
           << mesh << ", expected at most " << kMaxPoints
           << " points, which the interpreter runs one after the other";
  int64_t total = 0;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    RankedTensorType type = getWholeType(getArgumentLayout(function, i),
                                         function.getArgAttrDict(i));
    if (failed(check(function.getLoc(), type)))
      return failure();
    total += countElements(type);
    if (total > kMaxElements)
      return function.emitError("has arguments of more than ")
             << kMaxElements
             << " elements, expected what the interpreter can hold in memory";
  }
  // Behind `outline` a step is a declaration, beside what it runs.
  Operation *scope = function.isExternal() ? function->getParentOp() : function;
  WalkResult walk = scope->walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      if (failed(check(op->getLoc(), type)))
        return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

FailureOr<TrainingResult> train(ModuleOp module,
                                const TrainingOptions &options) {
  auto function = findEntry(module, options.entry);
  if (failed(function))
    return failure();
  if (failed(checkSizes(*function)))
    return failure();
  Training training(*function, options);
  if (failed(training.load()))
    return failure();
  for (unsigned step = 0; step < options.steps; ++step)
    if (failed(training.runStep(step)))
      return failure();
  return training.takeResult();
}

//===----------------------------------------------------------------------===//
// Signatures
//===----------------------------------------------------------------------===//

static void printValue(StringRef what, StringRef key, DictionaryAttr attributes,
                       Type type, raw_ostream &os) {
  auto shaped = dyn_cast<ShapedType>(type);
  if (RankedTensorType layout = spmd::getLayout(attributes))
    shaped = layout;
  os << what << " " << key << " ";
  if (shaped)
    os << RankedTensorType::get(shaped.getShape(), shaped.getElementType());
  os << "\n";
}

LogicalResult printSignature(ModuleOp module, StringRef entry,
                             raw_ostream &os) {
  auto function = findEntry(module, entry);
  if (failed(function))
    return failure();
  if (auto mesh = spmd::getMesh(*function))
    os << "mesh " << spmd::getMeshText(mesh) << "\n";
  for (auto [index, type] : llvm::enumerate(function->getArgumentTypes())) {
    DictionaryAttr attributes = function->getArgAttrDict(index);
    printValue("argument", getKey(attributes, "argument", index), attributes,
               type, os);
  }
  for (auto [index, type] : llvm::enumerate(function->getResultTypes())) {
    DictionaryAttr attributes = function->getResultAttrDict(index);
    printValue("result", getKey(attributes, "result", index), attributes, type,
               os);
  }
  return success();
}

} // namespace tandem::reference
