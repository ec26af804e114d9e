//===- AxisRates.cpp - what changes along the axes take -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AxisRates.h"
#include "mlir/IR/Diagnostics.h"
#include "tandem/Dialect/SPMD/MeshText.h"
#include "tandem/Dialect/SPMD/Rates.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;

static ModuleOp getModule(const plan::StepGraph &graph) {
  func::FuncOp step = graph.step;
  return step->getParentOfType<ModuleOp>();
}

FailureOr<cost::Cluster> tandem::plan::getCluster(const StepGraph &graph,
                                                  const std::string &path) {
  FailureOr<MeshAttr> mesh = getWholeMesh(getModule(graph), graph.mesh);
  if (failed(mesh))
    return failure();
  std::string error;
  auto cluster = cost::getCluster(path, mesh->getNumRanks(), error);
  if (!cluster)
    return emitError(graph.getLoc()) << error;
  return *cluster;
}

static std::vector<cost::Axis> listAxes(MeshAttr mesh) {
  std::vector<cost::Axis> axes(mesh.getNumAxes());
  for (auto [number, axis] : llvm::enumerate(axes)) {
    axis.name = mesh.getName(number).str();
    axis.size = mesh.getSize(number);
    axis.isTime = mesh.isTime(number);
  }
  return axes;
}

FailureOr<std::vector<cost::Axis>>
tandem::plan::priceAxes(const StepGraph &graph, const cost::Cluster &cluster) {
  FailureOr<MeshAttr> whole = getWholeMesh(getModule(graph), graph.mesh);
  if (failed(whole))
    return failure();
  std::vector<cost::Axis> axes = listAxes(graph.mesh), all = listAxes(*whole);
  llvm::copy_if(axes, std::back_inserter(all),
                [](const cost::Axis &axis) { return axis.isTime; });
  std::string error;
  if (!cost::priceMesh(cluster, all, error))
    return emitError(graph.getLoc()) << error;
  for (cost::Axis &axis : axes)
    for (const cost::Axis &priced : all)
      if (priced.name == axis.name)
        axis = priced;
  return axes;
}

DictionaryAttr tandem::plan::makeRates(ArrayRef<cost::Axis> axes,
                                       MLIRContext *context) {
  Builder builder(context);
  NamedAttrList rates;
  for (const cost::Axis &axis : axes) {
    SmallVector<double> numbers;
    for (const cost::ChangeRate &rate : axis.rates)
      llvm::append_values(numbers, rate.latency, rate.secondsPerByte);
    rates.set(axis.name, builder.getDenseF64ArrayAttr(numbers));
  }
  return rates.getDictionary(context);
}

LogicalResult tandem::plan::writeRates(const StepGraph &graph,
                                       const std::string &path) {
  if (graph.mesh.getNumRanks() == 1)
    return success();
  FailureOr<cost::Cluster> cluster = getCluster(graph, path);
  if (failed(cluster))
    return failure();
  auto axes = priceAxes(graph, *cluster);
  if (failed(axes))
    return failure();
  getModule(graph)->setAttr(kRatesAttrName,
                            makeRates(*axes, graph.mesh.getContext()));
  return success();
}
