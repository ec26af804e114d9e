// RUN: tandem-opt %s --split-input-file --verify-diagnostics

// One case per error of the attributes that spmd declares (Facts.cpp).

// expected-error @+1 {{'builtin.module' has the 'spmd.mesh' "data = 2", expected a mesh such as #spmd.mesh<data = 2>}}
module attributes {spmd.mesh = "data = 2"} {}

// -----

// expected-error @+1 {{'builtin.module' has the unknown attribute 'spmd.mash', did you mean 'spmd.mesh'}}
module attributes {spmd.mash = #spmd.mesh<data = 2>} {}

// -----

func.func @case3(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.exp' has the 'spmd.plan' "full -> full", expected a plan such as #spmd.plan<stage = 3>}}
  %0 = nn.exp %x {spmd.plan = "full -> full"} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// expected-error @+1 {{argument 0 has the 'spmd.layout' 0 : i64, expected the type of a tensor}}
func.func @case5(%x: tensor<4xf32> {spmd.layout = 0 : i64}) {
  return
}

// -----

func.func @case9(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.exp' has the 'spmd.change' true, expected no value}}
  %0 = nn.exp %x {spmd.change = true} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

module attributes {spmd.pipe = "pipe", spmd.sections = array<i64: 0, 1>} {
  // expected-error @+1 {{argument 0 is in section 7 ('spmd.section'), but 'spmd.sections' has 2, from 0 on}}
  func.func @case10(%x: tensor<4xf32> {spmd.section = 7 : i64}) {
    return
  }
}

// -----

module attributes {spmd.pipe = "pipe", spmd.sections = array<i64: 0, 1>} {
  func.func @case11(%x: tensor<4xf32>) {
    // expected-error @+1 {{'nn.exp' is in section 2 ('spmd.section'), but 'spmd.sections' has 2, from 0 on}}
    %0 = nn.exp %x {spmd.section = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

// expected-error @+1 {{a section lies on point 5, but axis 'pipe' has 2 points, from 0 on}}
module attributes {spmd.pipe = "pipe", spmd.sections = array<i64: 0, 5>, spmd.whole_mesh = "pipe=2,data=1"} {}

// -----

// expected-error @+1 {{the module has 'spmd.sections', expected the name of their axis, too ('spmd.pipe')}}
module attributes {spmd.sections = array<i64: 0, 1>} {}
