// RUN: tandem-opt %s --split-input-file --verify-diagnostics

// One case per error of the spmd attributes and verifiers.

#mesh = #spmd.mesh<data = 4>
// A collective that was forgotten: a split sum is `reduce`, not `full`.
func.func @forgotten(%x: tensor<8x4xf32, #spmd.form<#mesh, data: gather(0)>>) -> tensor<4xf32> {
  // expected-error @+1 {{has no signature 'gather(0) -> full' on axis 'data' of size 4}}
  %0 = nn.sum %x {dims = array<i64: 0>} : (tensor<8x4xf32, #spmd.form<#mesh, data: gather(0)>>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

#mesh = #spmd.mesh<data = 4>
// expected-error @+1 {{dimension 0 of size 6 cannot be split into 4 equal parts (axis 'data')}}
func.func @divide(%x: tensor<6x4xf32, #spmd.form<#mesh, data: gather(0)>>) {
  return
}

// -----

#mesh = #spmd.mesh<data = 4>
// expected-error @+1 {{truth values (i1) are 'reduce' on axis 'data', expected 'full' or 'gather': a sum of them is none}}
func.func @sum_of_truth(%x: tensor<8xi1, #spmd.form<#mesh, data: reduce>>) {
  return
}

// -----

#mesh = #spmd.mesh<data = 2, model = 4>
// expected-error @+1 {{dimension 0 of size 4 cannot be split into 8 equal parts (axis 'model')}}
func.func @divide_twice(%x: tensor<4xf32, #spmd.form<#mesh, data: gather(0), model: gather(0)>>) {
  return
}

// -----

#mesh = #spmd.mesh<data = 4>
// expected-error @+1 {{axis 'data' splits dimension 1, but the tensor has rank 1}}
func.func @rank(%x: tensor<8xf32, #spmd.form<#mesh, data: gather(1)>>) {
  return
}

// -----

#one = #spmd.mesh<data = 2>
#two = #spmd.mesh<data = 4>
func.func @mixed(%x: tensor<8xf32, #spmd.form<#one, data: gather(0)>>, %y: tensor<8xf32, #spmd.form<#two, data: gather(0)>>) {
  // expected-error @+1 {{'nn.add' op mixes forms on the meshes #spmd.mesh<data = 2> and #spmd.mesh<data = 4>}}
  %0 = nn.add %x, %y : (tensor<8xf32, #spmd.form<#one, data: gather(0)>>, tensor<8xf32, #spmd.form<#two, data: gather(0)>>) -> tensor<8xf32, #spmd.form<#one, data: gather(0)>>
  return
}

// -----

// expected-error @+1 {{mesh axis 'data' has size 0, expected at least 1}}
#mesh = #spmd.mesh<data = 0>

// -----

// expected-error @+1 {{mesh axis 'data' is declared twice}}
#mesh = #spmd.mesh<data = 2, data = 2>

// -----

// expected-error @+1 {{a space axis after a time axis}}
#mesh = #spmd.mesh<time micro = 2, data = 2>

// -----

#mesh = #spmd.mesh<data = 2>
// expected-error @+1 {{the mesh has no axis 'model'}}
func.func @unknown(%x: tensor<8xf32, #spmd.form<#mesh, model: gather(0)>>) {
  return
}

// -----

#mesh = #spmd.mesh<data = 2>
// expected-error @+1 {{expected 'full', 'gather(d)', 'reduce' or 'at(i)'}}
func.func @keyword(%x: tensor<8xf32, #spmd.form<#mesh, data: split>>) {
  return
}

// -----

// A form of search problems.
#mesh = #spmd.mesh<data = 2>
// expected-error @+1 {{expected 'full', 'gather(d)', 'reduce' or 'at(i)'}}
func.func @replicate(%x: tensor<8xf32, #spmd.form<#mesh, data: replicate>>) {
  return
}

// -----

#mesh = #spmd.mesh<data = 2>
// expected-error @+1 {{'gather' of a negative dimension}}
func.func @negative(%x: tensor<8xf32, #spmd.form<#mesh, data: gather(-1)>>) {
  return
}

// -----

#mesh = #spmd.mesh<data = 2>
// expected-error @+1 {{a tensor that is full on all axes carries no form at all}}
func.func @full(%x: tensor<8xf32, #spmd.form<#mesh, data: full>>) {
  return
}

// -----

#mesh = #spmd.mesh<data = 2>
func.func @reform_type(%x: tensor<8xf32, #spmd.form<#mesh, data: reduce>>) {
  // expected-error @+1 {{'spmd.reform' op changes the tensor from 'tensor<8xf32>' to 'tensor<4xf32>', expected a change of form only}}
  %0 = spmd.reform %x : tensor<8xf32, #spmd.form<#mesh, data: reduce>> -> tensor<4xf32>
  return
}

// -----

#one = #spmd.mesh<data = 2>
#two = #spmd.mesh<data = 4>
func.func @reform_mesh(%x: tensor<8xf32, #spmd.form<#one, data: reduce>>) {
  // expected-error @+1 {{'spmd.reform' op changes the mesh}}
  %0 = spmd.reform %x : tensor<8xf32, #spmd.form<#one, data: reduce>> -> tensor<8xf32, #spmd.form<#two, data: reduce>>
  return
}

// -----

func.func @reform_nothing(%x: tensor<8xf32>) {
  // expected-error @+1 {{'spmd.reform' op changes nothing}}
  %0 = spmd.reform %x : tensor<8xf32> -> tensor<8xf32>
  return
}

// -----

func.func @no_mesh(%x: tensor<8xf32>) {
  // expected-error @+1 {{'spmd.all_reduce' op needs a mesh: the module has no 'spmd.mesh'}}
  %0 = spmd.all_reduce %x over ["data"] : tensor<8xf32> -> tensor<8xf32>
  return
}

// -----

module attributes {spmd.mesh = #spmd.mesh<data = 2>} {
  func.func @no_axis(%x: tensor<8xf32>) {
    // expected-error @+1 {{'spmd.all_reduce' op names no axis}}
    %0 = spmd.all_reduce %x over [] : tensor<8xf32> -> tensor<8xf32>
    return
  }
}

// -----

module attributes {spmd.mesh = #spmd.mesh<data = 2, time micro = 2>} {
  func.func @time_axis(%x: tensor<8xf32>) {
    // expected-error @+1 {{'spmd.all_reduce' op the mesh #spmd.mesh<data = 2, time micro = 2> has no space axis "micro"}}
    %0 = spmd.all_reduce %x over ["micro"] : tensor<8xf32> -> tensor<8xf32>
    return
  }
}

// -----

module attributes {spmd.mesh = #spmd.mesh<data = 2>} {
  func.func @gather_dim(%x: tensor<8xf32>) {
    // expected-error @+1 {{'spmd.all_gather' op dimension 1 does not exist in 'tensor<8xf32>'}}
    %0 = spmd.all_gather %x over ["data"] dim 1 : tensor<8xf32> -> tensor<16xf32>
    return
  }
}

// -----

module attributes {spmd.mesh = #spmd.mesh<data = 2>} {
  func.func @gather_shape(%x: tensor<8xf32>) {
    // expected-error @+1 {{'spmd.all_gather' op gives 'tensor<8xf32>', expected 'tensor<16xf32>'}}
    %0 = spmd.all_gather %x over ["data"] dim 0 : tensor<8xf32> -> tensor<8xf32>
    return
  }
}

// -----

module attributes {spmd.mesh = #spmd.mesh<data = 2>} {
  func.func @scatter_shape(%x: tensor<9xf32>) {
    // expected-error @+1 {{'spmd.reduce_scatter' op dimension 0 of size 9 cannot be cut for 2 members}}
    %0 = spmd.reduce_scatter %x over ["data"] dim 0 : tensor<9xf32> -> tensor<4xf32>
    return
  }
}

// -----

module attributes {spmd.mesh = #spmd.mesh<data = 2>} {
  func.func @same_dim(%x: tensor<8x8xf32>) {
    // expected-error @+1 {{'spmd.all_to_all' op splits and concatenates the same dimension}}
    %0 = spmd.all_to_all %x over ["data"] split 1 concat 1 : tensor<8x8xf32> -> tensor<8x8xf32>
    return
  }
}

// -----

module attributes {spmd.mesh = #spmd.mesh<data = 2, model = 2>} {
  func.func @order_of_axes(%x: tensor<8x4xf32>) {
    // expected-error @+1 {{names the axes ["model", "data"], expected each once and in the order of #spmd.mesh<data = 2, model = 2>}}
    %0 = spmd.all_reduce %x over ["model", "data"] : tensor<8x4xf32> -> tensor<8x4xf32>
    return
  }
}

// -----

module attributes {spmd.mesh = #spmd.mesh<data = 2, model = 2>} {
  func.func @double_axis(%x: tensor<8x4xf32>) {
    // expected-error @+1 {{names the axes ["data", "data"], expected each once and in the order of #spmd.mesh<data = 2, model = 2>}}
    %0 = spmd.all_gather %x over ["data", "data"] dim 0 : tensor<8x4xf32> -> tensor<32x4xf32>
    return
  }
}

// -----

module attributes {spmd.mesh = #spmd.mesh<data = 2, model = 2>} {
  func.func @negative_dim(%x: tensor<8x4xf32>) {
    // expected-error @+1 {{'spmd.reduce_scatter' op dimension -1 does not exist in 'tensor<8x4xf32>'}}
    %0 = spmd.reduce_scatter %x over ["data"] dim -1 : tensor<8x4xf32> -> tensor<8x4xf32>
    return
  }
}

// -----

module attributes {spmd.mesh = #spmd.mesh<data = 2, model = 2>} {
  func.func @negative_concat(%x: tensor<8x4xf32>) {
    // expected-error @+1 {{'spmd.all_to_all' op dimension -2 does not exist in 'tensor<8x4xf32>'}}
    %0 = spmd.all_to_all %x over ["data"] split 0 concat -2 : tensor<8x4xf32> -> tensor<4x4xf32>
    return
  }
}

// -----

module attributes {spmd.mesh = #spmd.mesh<data = 2, time micro = 2>} {
  func.func @coordinate() {
    // expected-error @+1 {{'spmd.coordinate' op the mesh #spmd.mesh<data = 2, time micro = 2> has no space axis "micro"}}
    %0 = spmd.coordinate "micro" : tensor<i64>
    return
  }
}

// -----

module attributes {spmd.mesh = #spmd.mesh<data = 2>} {
  func.func @named(%x: tensor<4xf32>) {
    // expected-error @+1 {{'spmd.all_reduce' has the unknown attribute 'chnge', did you mean 'spmd.change'}}
    %0 = spmd.all_reduce %x over ["data"] {chnge} : tensor<4xf32> -> tensor<4xf32>
    return
  }
}
