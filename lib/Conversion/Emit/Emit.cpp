//===- Emit.cpp - lowered IR to a Program ---------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/Emit/Emit.h"
#include "Declarations.h"
#include "Link.h"
#include "tandem/Analysis/Lookups.h"
#include "tandem/Analysis/Origins.h"
#include "tandem/Analysis/UserLocation.h"
#include "tandem/Conversion/Lower/PlaceScratch.h"
#include "tandem/Device/Gpu.h"
#include "tandem/Dialect/NN/ModelFacts.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/Sched/Host.h"
#include "tandem_rt/model_facts.h"
#include "tandem_rt/new_file.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/TargetParser/Host.h"
#include <deque>

using namespace mlir;

namespace tandem {

#define GEN_PASS_DEF_EMITPASS
#include "tandem/Conversion/Emit/Passes.h.inc"

/// The number of the code object that has all kernels.
static constexpr uint32_t kObject = 0;

namespace {
/// Lists the commands of one function.
class Emitter {
public:
  Emitter(func::FuncOp step, spmd::MeshAttr mesh, rt::ProgramBuilder &builder,
          const CompiledKernels &kernels)
      : step(step), queues(step), mesh(mesh), builder(builder),
        kernels(kernels) {}
  /// `arena`: bytes that the step's buffers take; `host`: those that wait in
  /// the host's memory.
  LogicalResult emit(int64_t arena, int64_t host);

private:
  LogicalResult emit(Operation *op);
  void emit(sched::LaunchOp op);
  LogicalResult emit(sched::GemmOp op);
  LogicalResult emit(sched::AttendOp op);
  LogicalResult emit(sched::ConvolveOp op);
  LogicalResult emit(sched::CollectiveOp op);
  LogicalResult emit(sched::CheckOp op);
  void place(Operation *op);
  const CompiledKernel &getKernel(sched::LaunchOp op) const;
  rt::BufferRef getBuffer(Value value) { return buffers.lookup(value); }
  std::vector<rt::BufferRef> getBuffers(ValueRange values);
  void emitParts(sched::LaunchOp op, const CompiledKernel &kernel,
                 const std::vector<rt::Affine> &scalars);
  rt::BufferRef getScratch(sched::LaunchOp op) const;

  func::FuncOp step;
  sched::Queues queues;
  spmd::MeshAttr mesh;
  rt::ProgramBuilder &builder;
  const CompiledKernels &kernels;
  /// The arena in the host's memory, if there is one.
  uint32_t hostArena = 0;
  /// Where launches have what their kernels need beside buffers.
  llvm::DenseMap<Operation *, int64_t> scratch;
  llvm::DenseMap<Value, rt::BufferRef> buffers;
  llvm::DenseMap<Value, uint32_t> events;
};
} // namespace

template <typename OpT>
static rt::CommandInfo getInfo(OpT op, const sched::Queues &queues) {
  rt::CommandInfo info;
  info.name = op.getLabel().str();
  info.location = getUserLocations(op.getLoc());
  info.queue = queues.getNumber(op.getQueue());
  info.flops = op.getFlops();
  info.bytes = op.getBytes();
  info.stage = op.getStage();
  info.strand = op.getStrand();
  for (const Origin &origin : getOrigins(op.getLoc()))
    info.origins.push_back({origin.id, uint32_t(origin.result)});
  return info;
}

/// The places of a kernel that reads rows by indices, without what its command
/// says itself: the line, the operator.
static std::vector<std::string> getSites(sched::LaunchOp op) {
  std::vector<std::string> sites = tandem::getSites(op.getLoc());
  std::string line = " (" + getUserLocations(op.getLoc()) + ")";
  for (std::string &site : sites) {
    if (StringRef(site).ends_with(line))
      site.resize(site.size() - line.size());
    if (site == op.getLabel())
      site.clear();
  }
  return sites;
}

static rt::Shape toShape(ArrayRef<int64_t> values) { return values.vec(); }

static int64_t getBytes(MemRefType type) {
  int64_t width = type.getElementTypeBitWidth();
  return type.getNumElements() * ((width + 7) / 8);
}

/// The place of an alloc, a result or a view.
void Emitter::place(Operation *op) {
  Value value = op->getResult(0);
  auto type = cast<MemRefType>(value.getType());
  if (auto alloc = dyn_cast<sched::AllocOp>(op)) {
    bool isOnHost = op->hasAttr(sched::kHostBufferAttrName);
    buffers[value] = builder.arena(*alloc.getOffset(), getBytes(type),
                                   isOnHost ? hostArena : 0);
  } else if (auto result = dyn_cast<sched::ResultOp>(op)) {
    buffers[value] = builder.result(result.getIndex());
  } else {
    auto view = cast<sched::ViewOp>(op);
    int64_t width = (type.getElementTypeBitWidth() + 7) / 8;
    rt::BufferRef ref = getBuffer(view.getSource());
    ref.offset.base += static_cast<int64_t>(view.getOffset()) * width;
    for (auto [axis, coefficient] :
         llvm::zip_equal(view.getAxes(), view.getCoefficients()))
      ref.offset.terms.push_back(
          {getAxisNumber(mesh, cast<StringAttr>(axis).getValue()),
           coefficient * width});
    ref.offset.perIteration +=
        static_cast<int64_t>(view.getPerIteration()) * width;
    ref.bytes = getBytes(type);
    buffers[value] = ref;
  }
}

std::vector<rt::BufferRef> Emitter::getBuffers(ValueRange values) {
  std::vector<rt::BufferRef> refs;
  for (Value value : values)
    refs.push_back(getBuffer(value));
  return refs;
}

/// Names differ within a module alone: those of an action have its name.
static std::string getKernelName(ModuleOp module, StringRef kernel) {
  auto action = module.getSymName();
  return (action ? *action + "." + kernel : kernel).str();
}

/// Of inputs and outputs; none where one has a type that a Program has not.
static std::vector<rt::ElementType> getTypes(sched::LaunchOp op) {
  std::vector<rt::ElementType> types;
  for (ValueRange values :
       {ValueRange(op.getInputs()), ValueRange(op.getOutputs())})
    for (Value value : values) {
      std::string name;
      llvm::raw_string_ostream(name)
          << cast<ShapedType>(value.getType()).getElementType();
      auto type = rt::parseElementType(name);
      if (!type)
        return {};
      types.push_back(*type);
    }
  return types;
}

/// Whether a constant of the kernel is not finite.
static bool hasInfinity(sched::LaunchOp op) {
  auto kernel = op->getParentOfType<ModuleOp>().lookupSymbol(op.getKernel());
  if (!kernel)
    return false;
  auto isInfinite = [](const APFloat &value) { return !value.isFinite(); };
  auto result = kernel->walk([&](nn::ConstantOp constant) {
    auto values = dyn_cast<DenseFPElementsAttr>(constant.getValue());
    return values && llvm::any_of(values, isInfinite) ? WalkResult::interrupt()
                                                      : WalkResult::advance();
  });
  return result.wasInterrupted();
}

const CompiledKernel &Emitter::getKernel(sched::LaunchOp op) const {
  return kernels.kernels.at(
      getKernelName(step->getParentOfType<ModuleOp>(), op.getKernel()));
}

void Emitter::emit(sched::LaunchOp op) {
  const CompiledKernel &kernel = getKernel(op);
  std::vector<rt::Affine> scalars;
  for (const std::string &axis : kernel.axes)
    scalars.push_back(axis == spmd::kIterationAxis
                          ? rt::Affine::moving(0, 1)
                          : rt::Affine::coordinate(getAxisNumber(mesh, axis)));
  scalars.insert(scalars.end(), kernel.ordinals.begin(), kernel.ordinals.end());
  if (!kernel.parts.empty())
    return emitParts(op, kernel, scalars);
  rt::CommandInfo info = getInfo(op, queues);
  if (kernel.scratchBytes > 0)
    info.workspace = getScratch(op);
  builder.add(std::move(info),
              rt::Launch{kObject, kernel.symbol, getBuffers(op.getInputs()),
                         getBuffers(op.getOutputs()), std::move(scalars),
                         /*geometry=*/std::nullopt, getSites(op), getTypes(op),
                         hasInfinity(op)});
}

rt::BufferRef Emitter::getScratch(sched::LaunchOp op) const {
  return builder.arena(scratch.lookup(op), getKernel(op).scratchBytes);
}

/// The FLOPs and bytes of all launches are those of the first.
void Emitter::emitParts(sched::LaunchOp op, const CompiledKernel &kernel,
                        const std::vector<rt::Affine> &scalars) {
  rt::CommandInfo info = getInfo(op, queues);
  std::vector<rt::BufferRef> refs = getBuffers(op.getInputs());
  llvm::append_range(refs, getBuffers(op.getOutputs()));
  if (kernel.scratchBytes > 0)
    refs.push_back(getScratch(op));
  std::vector<rt::ElementType> types = getTypes(op);
  // The scratch memory of parts has no one type.
  auto pickTypes = [&](const KernelPart &part) {
    std::vector<rt::ElementType> picked;
    for (const auto &numbers : {part.reads, part.writes})
      for (unsigned number : numbers)
        picked.push_back(number < types.size() ? types[number]
                                               : rt::ElementType::I8);
    return types.empty() ? types : picked;
  };
  std::vector<rt::Origin> origins = std::move(info.origins);
  auto pickOrigins = [&](const KernelPart &part) {
    std::vector<rt::Origin> picked;
    for (size_t number : part.writes)
      picked.push_back(number - op.getInputs().size() < origins.size()
                           ? origins[number - op.getInputs().size()]
                           : rt::Origin());
    return picked;
  };
  auto pick = [&](ArrayRef<unsigned> numbers) {
    std::vector<rt::BufferRef> picked;
    for (unsigned number : numbers)
      picked.push_back(refs[number]);
    return picked;
  };
  for (const KernelPart &part : kernel.parts) {
    info.origins = pickOrigins(part);
    builder.add(info,
                rt::Launch{kObject, part.symbol, pick(part.reads),
                           pick(part.writes), scalars, part.geometry,
                           getSites(op), pickTypes(part), hasInfinity(op)});
    info.flops = info.bytes = 0;
  }
}

LogicalResult Emitter::emit(sched::GemmOp op) {
  auto typeOf = [&](Value value) {
    return getElementType(op,
                          cast<ShapedType>(value.getType()).getElementType());
  };
  auto input = typeOf(op.getLhs()), output = typeOf(op.getDestination());
  if (!input || !output)
    return failure();
  if (!rt::isFloat(*input))
    return op.emitError("matrix product of ")
           << cast<ShapedType>(op.getLhs().getType()).getElementType()
           << ", expected f64, f32 or bf16";
  rt::Gemm gemm;
  gemm.inputType = *input;
  gemm.outputType = *output;
  gemm.batch = toShape(op.getBatch());
  gemm.m = op.getM();
  gemm.n = op.getN();
  gemm.k = op.getK();
  gemm.stridesA = toShape(op.getStridesA());
  gemm.stridesB = toShape(op.getStridesB());
  gemm.stridesC = toShape(op.getStridesC());
  gemm.alpha = op.getAlpha().convertToDouble();
  gemm.a = getBuffer(op.getLhs());
  gemm.b = getBuffer(op.getRhs());
  gemm.c = getBuffer(op.getDestination());
  gemm.accumulate = op.getAccumulate();
  if (Value bias = op.getBias())
    gemm.bias = getBuffer(bias);
  if (op.getEpilogue() != sched::Epilogue::None)
    gemm.postOp = op.getEpilogue() == sched::Epilogue::Gelu
                      ? rt::PostOp::GeluTanh
                      : rt::PostOp::GeluTanhGradient;
  if (Value preActivation = op.getPreActivation())
    gemm.preActivation = getBuffer(preActivation);
  if (Value sums = op.getSums())
    (op.getSummed() == sched::Summed::Lhs ? gemm.sumsA : gemm.sumsB) =
        getBuffer(sums);
  rt::CommandInfo info = getInfo(op, queues);
  if (Value workspace = op.getWorkspace())
    info.workspace = getBuffer(workspace);
  builder.add(std::move(info), std::move(gemm));
  return success();
}

namespace {
/// Takes the buffers and strides of attention one after the other.
class AttentionReader {
public:
  AttentionReader(sched::AttendOp op, std::vector<rt::BufferRef> buffers,
                  rt::Attention &attention)
      : op(op), buffers(std::move(buffers)), strides(op.getStrides()),
        attention(attention) {}
  void readSizes();
  void readForward(rt::ElementType maskType);
  void readBackward(rt::ElementType maskType);

private:
  rt::BufferRef takeBuffer() { return buffers[next++]; }
  rt::AttentionTensor takeTensor() {
    rt::AttentionTensor tensor{takeBuffer(), toShape(strides.take_front(3))};
    strides = strides.drop_front(3);
    return tensor;
  }
  void readOwn();
  void readOthers(rt::ElementType maskType);

  sched::AttendOp op;
  std::vector<rt::BufferRef> buffers;
  ArrayRef<int64_t> strides;
  rt::Attention &attention;
  size_t next = 0;
};
} // namespace

void AttentionReader::readSizes() {
  int64_t *sizes[] = {&attention.batch,     &attention.heads,
                      &attention.keyHeads,  &attention.queries,
                      &attention.keys,      &attention.width,
                      &attention.valueWidth};
  for (auto [field, size] : llvm::zip_equal(sizes, op.getSizes()))
    *field = size;
  attention.scale = op.getScale().convertToDouble();
  attention.before = op.getBefore() ? int64_t(*op.getBefore()) : -1;
  attention.after = op.getAfter() ? int64_t(*op.getAfter()) : -1;
}

void AttentionReader::readOwn() {
  attention.query = takeTensor();
  attention.key = takeTensor();
  attention.value = takeTensor();
}

/// What comes behind the operands of attention's own.
void AttentionReader::readOthers(rt::ElementType maskType) {
  if (auto maskStrides = op.getMaskStrides())
    attention.mask =
        rt::AttentionMask{maskType, takeBuffer(), toShape(*maskStrides)};
  if (attention.hasBand())
    attention.positions = takeBuffer();
  double probability = op.getDropout().convertToDouble();
  if (probability == 0)
    return;
  rt::AttentionDropout &dropout = attention.dropout.emplace();
  dropout.probability = probability;
  dropout.ordinal = op.getOrdinal();
  for (rt::BufferRef *ref : {&dropout.rows, &dropout.seed, &dropout.step})
    *ref = takeBuffer();
}

void AttentionReader::readForward(rt::ElementType maskType) {
  readOwn();
  readOthers(maskType);
  attention.output = takeTensor();
  attention.logsumexp = takeBuffer();
}

void AttentionReader::readBackward(rt::ElementType maskType) {
  rt::AttentionGradients &gradients = attention.gradients.emplace();
  gradients.output = takeTensor();
  readOwn();
  attention.output = takeTensor();
  attention.logsumexp = takeBuffer();
  readOthers(maskType);
  gradients.query = takeTensor();
  gradients.key = takeTensor();
  gradients.value = takeTensor();
}

LogicalResult Emitter::emit(sched::AttendOp op) {
  auto typeOf = [&](Value value) {
    return getElementType(op,
                          cast<ShapedType>(value.getType()).getElementType());
  };
  size_t own = op.getBackward() ? 6 : 3;
  auto type = typeOf(op.getInputs().front());
  auto maskType = op.getMaskStrides() ? typeOf(op.getInputs()[own]) : type;
  if (!type || !maskType)
    return failure();
  std::vector<rt::BufferRef> buffers = getBuffers(op.getInputs());
  llvm::append_range(buffers, getBuffers(op.getOutputs()));
  rt::Attention attention;
  attention.type = *type;
  AttentionReader reader(op, std::move(buffers), attention);
  reader.readSizes();
  if (op.getBackward())
    reader.readBackward(*maskType);
  else
    reader.readForward(*maskType);
  builder.add(getInfo(op, queues), std::move(attention));
  return success();
}

LogicalResult Emitter::emit(sched::ConvolveOp op) {
  auto typeOf = [&](Value value) {
    return getElementType(op,
                          cast<ShapedType>(value.getType()).getElementType());
  };
  auto type = typeOf(op.getLhs()), madeType = typeOf(op.getDestination());
  if (!type || !madeType)
    return failure();
  rt::Convolution convolution;
  convolution.kind = static_cast<rt::ConvolutionKind>(op.getKind());
  convolution.type = *type;
  convolution.madeType = *madeType;
  convolution.stride = toShape(op.getStride());
  convolution.padding = toShape(op.getPadding());
  convolution.dilation = toShape(op.getDilation());
  ArrayRef<int64_t> extents[] = {op.getInput(), op.getWeight(), op.getOutput()};
  size_t rank = op.getInput().size();
  for (size_t i = 0; i < 3; ++i) {
    convolution.tensors[i].extents = toShape(extents[i]);
    convolution.tensors[i].strides =
        toShape(op.getStrides().slice(i * rank, rank));
  }
  auto [lhs, rhs, made] = convolution.roles();
  convolution.tensors[lhs].buffer = getBuffer(op.getLhs());
  convolution.tensors[rhs].buffer = getBuffer(op.getRhs());
  convolution.tensors[made].buffer = getBuffer(op.getDestination());
  rt::CommandInfo info = getInfo(op, queues);
  if (Value workspace = op.getWorkspace())
    info.workspace = getBuffer(workspace);
  builder.add(std::move(info), std::move(convolution));
  return success();
}

static rt::CollectiveKind getKind(sched::CollectiveKind kind) {
  switch (kind) {
  case sched::CollectiveKind::AllReduce:
    return rt::CollectiveKind::AllReduce;
  case sched::CollectiveKind::AllGather:
    return rt::CollectiveKind::AllGather;
  case sched::CollectiveKind::ReduceScatter:
    return rt::CollectiveKind::ReduceScatter;
  case sched::CollectiveKind::AllToAll:
    return rt::CollectiveKind::AllToAll;
  }
  llvm_unreachable("unknown collective");
}

LogicalResult Emitter::emit(sched::CollectiveOp op) {
  auto source = cast<MemRefType>(op.getSource().getType());
  auto type = getElementType(op, source.getElementType());
  if (!type)
    return failure();
  rt::Collective collective;
  collective.kind = getKind(op.getKind());
  for (Attribute axis : op.getAxes())
    collective.axes.push_back(
        getAxisNumber(mesh, cast<StringAttr>(axis).getValue()));
  llvm::sort(collective.axes);
  collective.type = *type;
  collective.shape = toShape(source.getShape());
  collective.splitDim = static_cast<int64_t>(op.getSplitDim());
  collective.concatDim = static_cast<int64_t>(op.getConcatDim());
  collective.source = getBuffer(op.getSource());
  collective.destination = getBuffer(op.getDestination());
  builder.add(getInfo(op, queues), std::move(collective));
  return success();
}

LogicalResult Emitter::emit(sched::CheckOp op) {
  auto type = getElementType(
      op, cast<ShapedType>(op.getSource().getType()).getElementType());
  if (!type)
    return failure();
  builder.add(getInfo(op, queues),
              rt::Check{.kind = op.getKind() == sched::CheckKind::True
                                    ? rt::CheckKind::Truth
                                    : rt::CheckKind::Finite,
                        .type = *type,
                        .source = getBuffer(op.getSource()),
                        .message = op.getWhat().str()});
  return success();
}

LogicalResult Emitter::emit(Operation *op) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case<sched::AllocOp, sched::ResultOp, sched::ViewOp>([&](auto) {
        place(op);
        return success();
      })
      .Case([&](sched::RecordOp record) {
        events[record.getEvent()] =
            builder.recordEvent(queues.getNumber(record.getQueue()));
        return success();
      })
      .Case([&](sched::WaitOp wait) {
        builder.waitEvent(queues.getNumber(wait.getQueue()),
                          events.lookup(wait.getEvent()));
        return success();
      })
      .Case([&](sched::BeginLoopOp) {
        builder.beginRepeat({.name = "iterations"}, spmd::getIterations(step));
        return success();
      })
      .Case([&](sched::EndLoopOp) {
        builder.endRepeat();
        return success();
      })
      .Case([&](sched::FillOp fill) {
        builder.add(getInfo(fill, queues),
                    rt::Fill{getBuffer(fill.getDestination()), {0}});
        return success();
      })
      .Case([&](sched::LaunchOp launch) {
        emit(launch);
        return success();
      })
      .Case([&](sched::CopyOp copy) {
        builder.add(getInfo(copy, queues),
                    rt::Copy{getBuffer(copy.getSource()),
                             getBuffer(copy.getDestination())});
        return success();
      })
      .Case<sched::GemmOp, sched::AttendOp, sched::ConvolveOp,
            sched::CollectiveOp, sched::CheckOp>(
          [&](auto command) { return emit(command); })
      .Case([](func::ReturnOp) { return success(); })
      .Default([](Operation *other) {
        return other->emitError("operator '")
               << other->getName()
               << "' is no command; was --tandem-lower run?";
      });
}

LogicalResult Emitter::emit(int64_t arena, int64_t host) {
  ScratchPlaces places = placeScratch(step, arena, [&](sched::LaunchOp launch) {
    return getKernel(launch).scratchBytes;
  });
  builder.setArena(places.arena);
  if (host > 0) {
    FailureOr<uint32_t> arena = addHostArena(step, host, builder);
    if (failed(arena))
      return failure();
    hostArena = *arena;
  }
  scratch = std::move(places.offsets);
  for (BlockArgument argument : step.getArguments())
    buffers[argument] = builder.argument(argument.getArgNumber());
  for (Operation &op : step.getBody().front())
    if (failed(emit(&op)))
      return failure();
  return success();
}

/// Adds copies of a module's kernels to `kernels`: the step's own function
/// is no code.
static void copyKernels(ModuleOp module, ModuleOp kernels,
                        llvm::StringSet<> &launched) {
  OpBuilder builder = OpBuilder::atBlockEnd(kernels.getBody());
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!function->hasAttr(sched::kKernelAttrName))
      continue;
    auto copy = cast<func::FuncOp>(builder.clone(*function));
    copy.setName(getKernelName(module, copy.getName()));
    copy.walk([&](func::CallOp call) {
      call.setCallee(getKernelName(module, call.getCallee()));
    });
  }
  module.walk([&](sched::LaunchOp launch) {
    launched.insert(getKernelName(module, launch.getKernel()));
  });
}

/// Of what is simulated alone kernels have names, and no code.
static CompiledKernels nameKernels(ArrayRef<ModuleOp> lowered) {
  CompiledKernels kernels;
  for (ModuleOp module : lowered)
    module.walk([&](sched::LaunchOp launch) {
      kernels.kernels[getKernelName(module, launch.getKernel())].symbol =
          launch.getKernel().str();
    });
  return kernels;
}

/// The kernels of all `lowered` modules as one code object, so that those with
/// the same text are in the Program once.
static FailureOr<CompiledKernels> compile(ModuleOp module,
                                          ArrayRef<ModuleOp> lowered,
                                          const EmitOptions &emitOptions) {
  if (emitOptions.namesKernels || !hasCode(sched::getDevice(module)))
    return nameKernels(lowered);
  KernelOptions options = emitOptions.kernels;
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(module.getLoc());
  (*kernels)->setDiscardableAttrs(module->getDiscardableAttrDictionary());
  for (ModuleOp each : lowered)
    copyKernels(each, *kernels, options.launched);
  if (kernels->getBody()->empty())
    return CompiledKernels();
  return compileKernels(*kernels, options);
}

static rt::Target getTarget(const CompiledKernels &kernels,
                            const Device &device) {
  rt::Target target = getTarget(device);
  target.triple =
      kernels.triple.empty() ? llvm::sys::getProcessTriple() : kernels.triple;
  target.cpu = kernels.cpu;
  SmallVector<StringRef> features;
  StringRef(kernels.features).split(features, ',', -1, false);
  for (StringRef feature : features)
    if (feature.consume_front("+"))
      target.features.push_back(feature.str());
  return target;
}

static std::vector<rt::Queue> getQueues(func::FuncOp step) {
  sched::Queues queues(step);
  std::vector<rt::Queue> list;
  for (unsigned i = 0; i < queues.size(); ++i)
    list.push_back({static_cast<rt::QueueRole>(queues[i].getRole()),
                    sched::str(queues[i])});
  return list;
}

/// Adds what a lowered module has to a Program with its kernels.
static LogicalResult build(ModuleOp module, const CompiledKernels &kernels,
                           rt::ProgramBuilder &builder) {
  auto step = module.lookupSymbol<func::FuncOp>("step");
  auto arena = module->getAttrOfType<IntegerAttr>(sched::kArenaAttrName);
  if (!step || !arena)
    return module.emitError("module holds no lowered step; was --tandem-lower "
                            "run?");
  auto mesh = module->getAttrOfType<spmd::MeshAttr>(spmd::kMeshAttrName);
  builder.setQueues(getQueues(step));
  auto host = module->getAttrOfType<IntegerAttr>(sched::kHostArenaAttrName);
  return failure(failed(declare(step, mesh, builder)) ||
                 failed(Emitter(step, mesh, builder, kernels)
                            .emit(arena.getInt(), host ? host.getInt() : 0)));
}

static rt::ProgramBuilder makeBuilder(ModuleOp module) {
  auto mesh = module->getAttrOfType<spmd::MeshAttr>(spmd::kMeshAttrName);
  return rt::ProgramBuilder(getSpaceAxes(mesh),
                            mesh ? mesh.getNumStrands() : 1);
}

/// The device's memory; that of the host only where something lies in it.
static std::vector<rt::MemorySpace>
getMemorySpaces(const Device &device, const rt::Program &program) {
  uint32_t last = 0;
  for (const rt::Argument &argument : program.arguments)
    last = std::max(last, argument.memorySpace);
  for (const rt::RankProgram &rank : program.rankPrograms)
    for (const rt::Arena &arena : rank.arenas)
      last = std::max(last, arena.memorySpace);
  return {device.memorySpaces.begin(), device.memorySpaces.begin() + last + 1};
}

/// Adds what runs the commands of a Program: the device and the code.
static void addMachine(const Device &device, const CompiledKernels &kernels,
                       rt::ProgramBuilder &builder) {
  builder.setTarget(getTarget(kernels, device));
  if (!kernels.object.empty() || !kernels.kernels.empty() || !hasCode(device))
    builder.addCodeObject(
        "kernels", rt::Bytes(kernels.object.begin(), kernels.object.end()),
        kernels.kind);
}

/// Adds what points do with the actions of a pipeline.
static LogicalResult buildPoints(ModuleOp module, ArrayRef<ModuleOp> modules,
                                 const CompiledKernels &kernels, StringRef axis,
                                 const llvm::DenseSet<int64_t> &full,
                                 rt::ProgramBuilder &builder) {
  std::deque<rt::ProgramBuilder> builders;
  llvm::StringMap<const rt::Program *> actions;
  for (ModuleOp action : modules) {
    builders.push_back(makeBuilder(action));
    if (failed(build(action, kernels, builders.back())))
      return failure();
    const rt::Program &program = builders.back().get();
    actions[action.getSymName().value_or("")] = &program;
    // Those that copy come last, in actions that have them.
    if (program.queues.size() > builder.get().queues.size())
      builder.setQueues(program.queues);
  }
  auto step = module.lookupSymbol<func::FuncOp>("step");
  auto mesh = module->getAttrOfType<spmd::MeshAttr>(spmd::kMeshAttrName);
  if (!step || !mesh)
    return module.emitError("module has no declaration of @step on a mesh");
  if (failed(declare(step, mesh, builder)))
    return failure();
  uint32_t number = getAxisNumber(mesh, axis);
  for (int64_t point = 0; point < mesh.getSize(number); ++point)
    if (!module.lookupSymbol<func::FuncOp>(("p" + Twine(point)).str()))
      return module.emitError("module has no function @p")
             << point << ", expected one for each of " << mesh.getSize(number)
             << " points of axis '" << axis << "'";
  return linkPoints(module, number, actions, full, builder);
}

/// What `import` counted; nothing in IR that did not pass it.
static FailureOr<rt::ModelFacts> getModelFacts(ModuleOp module) {
  rt::ModelFacts facts;
  if (auto tokens = module->getAttrOfType<IntegerAttr>(nn::kTokensAttrName))
    facts.tokens = tokens.getInt();
  auto flops = module->getAttrOfType<DictionaryAttr>(nn::kModelFlopsAttrName);
  if (!flops)
    return facts;
  for (NamedAttribute each : flops) {
    auto type = rt::parseElementType(each.getName().getValue());
    if (!type)
      return module.emitError("'")
             << nn::kModelFlopsAttrName << "' has the type "
             << each.getName().getValue() << ", expected f64, f32 or bf16";
    facts.flops.push_back(
        {*type, cast<FloatAttr>(each.getValue()).getValueAsDouble()});
  }
  return facts;
}

static int64_t countMostHeld(const rt::Program &program) {
  int64_t most = 0;
  for (int64_t rank = 0; rank < program.numRanks(); ++rank)
    most = std::max(most, rt::heldBytes(program, rank));
  return most;
}

/// Of a pipeline, the points whose ranks hold more than their limits.
static llvm::DenseSet<int64_t> findFull(const rt::Program &program,
                                        ArrayRef<int64_t> limits) {
  llvm::DenseSet<int64_t> full;
  for (auto [rank, limit] : llvm::enumerate(limits))
    if (rt::heldBytes(program, rank) > limit)
      full.insert(program.rankToProgram[rank]);
  return full;
}

/// All but the text. `full` are points of a pipeline.
static FailureOr<rt::ProgramBuilder>
buildProgram(ModuleOp module, ArrayRef<ModuleOp> lowered,
             const CompiledKernels &kernels,
             const llvm::DenseSet<int64_t> &full) {
  auto pipe = module->getAttrOfType<StringAttr>(spmd::kPipeAttrName);
  rt::ProgramBuilder builder = makeBuilder(module);
  addMachine(sched::getDevice(module), kernels, builder);
  if (failed(pipe ? buildPoints(module, lowered, kernels, pipe, full, builder)
                  : build(module, kernels, builder)))
    return failure();
  builder.setMemorySpaces(
      getMemorySpaces(sched::getDevice(module), builder.get()));
  return builder;
}

FailureOr<EmittedProgram> emitProgram(ModuleOp module,
                                      const EmitOptions &options) {
  auto pipe = module->getAttrOfType<StringAttr>(spmd::kPipeAttrName);
  SmallVector<ModuleOp> lowered = {module};
  if (pipe)
    lowered = llvm::to_vector(module.getOps<ModuleOp>());
  if (lowered.empty())
    return module.emitError("has sections on the axis '")
           << pipe.getValue()
           << "', but no actions: --tandem-place-sections and "
              "--tandem-outline-actions make them, as tandem-compile does";
  FailureOr<CompiledKernels> kernels = compile(module, lowered, options);
  if (failed(kernels))
    return failure();
  auto builder = buildProgram(module, lowered, *kernels, {});
  if (pipe && succeeded(builder))
    if (auto full = findFull(builder->get(), options.limits); !full.empty())
      builder = buildProgram(module, lowered, *kernels, full);
  if (failed(builder))
    return failure();
  rt::Expected<rt::Bytes> bytes = builder->finish();
  if (!bytes.ok())
    return module.emitError("program is not valid: ")
           << bytes.status().message();
  FailureOr<rt::ModelFacts> facts = getModelFacts(module);
  if (failed(facts))
    return failure();
  bytes = rt::serializeProgram(builder->get(), *facts);
  int64_t held = countMostHeld(builder->get());
  return EmittedProgram{std::move(builder->mutableProgram()),
                        std::string(bytes->begin(), bytes->end()), held};
}

namespace {
struct EmitPass : impl::EmitPassBase<EmitPass> {
  using EmitPassBase::EmitPassBase;
  void runOnOperation() override {
    if (failed(run()))
      signalPassFailure();
  }
  LogicalResult run();
};
} // namespace

LogicalResult EmitPass::run() {
  ModuleOp module = getOperation();
  if (output.empty())
    return emitError(module.getLoc(), "no file is named for the Program, "
                                      "expected --tandem-emit=output=FILE");
  FailureOr<EmittedProgram> program = emitProgram(module, EmitOptions());
  if (failed(program))
    return failure();
  rt::NewFile file(output, rt::kProgramFile);
  file.stream() << program->bytes;
  if (rt::Status status = file.finish(); !status.ok())
    return emitError(module.getLoc()) << status.message();
  return success();
}

} // namespace tandem
