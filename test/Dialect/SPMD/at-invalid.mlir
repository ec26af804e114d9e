// RUN: tandem-opt %s --split-input-file --verify-diagnostics

// One case per error of the form `at`.

#mesh = #spmd.mesh<pipe = 2>
// expected-error @+1 {{'at(2)' on axis 'pipe' of size 2, expected a point below it}}
func.func @point(%x: tensor<8xf32, #spmd.form<#mesh, pipe: at(2)>>) {
  return
}

// -----

#mesh = #spmd.mesh<pipe = 2>
// expected-error @+1 {{'at' of the point -1, expected 0 to 16777216}}
func.func @negative(%x: tensor<8xf32, #spmd.form<#mesh, pipe: at(-1)>>) {
  return
}

// -----

#mesh = #spmd.mesh<pipe = 2, time micro = 2>
// expected-error @+1 {{'at(0)' on the time axis 'micro', expected a space axis}}
func.func @time(%x: tensor<8xf32, #spmd.form<#mesh, micro: at(0)>>) {
  return
}

// -----

#mesh = #spmd.mesh<pipe = 2>
// expected-error @+1 {{axis 'pipe' is both 'at(0)' and 'gather(0)', expected one form}}
func.func @split(%x: tensor<8xf32, #spmd.form<#mesh, pipe: at(0), pipe: gather(0)>>) {
  return
}

// -----

// A transfer that was forgotten.
#mesh = #spmd.mesh<pipe = 2>
#p0 = #spmd.form<#mesh, pipe: at(0)>
#p1 = #spmd.form<#mesh, pipe: at(1)>
func.func @forgotten(%x: tensor<8xf32, #p0>, %y: tensor<8xf32, #p1>) {
  // expected-error @+1 {{'nn.add' op has no signature 'at(0), at(1) -> at(1)' on axis 'pipe' of size 2; expected operands that are 'at(1)' or 'full', and results that are 'at(1)'}}
  %0 = nn.add %x, %y : (tensor<8xf32, #p0>, tensor<8xf32, #p1>) -> tensor<8xf32, #p1>
  return
}

// -----

#mesh = #spmd.mesh<pipe = 2>
#p0 = #spmd.form<#mesh, pipe: at(0)>
func.func @everywhere(%x: tensor<8xf32, #p0>) {
  // expected-error @+1 {{'nn.neg' op has no signature 'at(0) -> full' on axis 'pipe' of size 2; expected operands that are 'at(0)' or 'full', and results that are 'at(0)'}}
  %0 = nn.neg %x : (tensor<8xf32, #p0>) -> tensor<8xf32>
  return
}

// -----

// One point has a part only.
#mesh = #spmd.mesh<pipe = 2>
#p0 = #spmd.form<#mesh, pipe: at(0)>
#s = #spmd.form<#mesh, pipe: reduce>
func.func @term(%x: tensor<8xf32, #s>) {
  // expected-error @+1 {{'nn.neg' op has no signature 'reduce -> at(0)' on axis 'pipe' of size 2; expected operands that are 'at(0)' or 'full', and results that are 'at(0)'}}
  %0 = nn.neg %x : (tensor<8xf32, #s>) -> tensor<8xf32, #p0>
  return
}

// -----

#mesh = #spmd.mesh<pipe = 2>
#p0 = #spmd.form<#mesh, pipe: at(0)>
#p1 = #spmd.form<#mesh, pipe: at(1)>
module attributes {spmd.mesh = #mesh} {
  func.func @wrong_end(%x: tensor<8xf32, #p0>) {
    // expected-error @+1 {{'spmd.transfer' op takes a tensor that is 'at(0)' on axis "pipe", expected 'at(1)'}}
    %0 = spmd.transfer %x over ["pipe"] from 1 to 0 : tensor<8xf32, #p0> -> tensor<8xf32, #p0>
    return
  }
}

// -----

#mesh = #spmd.mesh<pipe = 3>
#p0 = #spmd.form<#mesh, pipe: at(0)>
#p1 = #spmd.form<#mesh, pipe: at(1)>
module attributes {spmd.mesh = #mesh} {
  func.func @wrong_peer(%x: tensor<8xf32, #p0>) {
    // expected-error @+1 {{'spmd.transfer' op gives 'tensor<8xf32, #spmd.form<#spmd.mesh<pipe = 3>, pipe: at(1)>>', expected 'tensor<8xf32, #spmd.form<#spmd.mesh<pipe = 3>, pipe: at(2)>>'}}
    %0 = spmd.transfer %x over ["pipe"] from 0 to 2 : tensor<8xf32, #p0> -> tensor<8xf32, #p1>
    return
  }
}

// -----

#mesh = #spmd.mesh<pipe = 2>
#p0 = #spmd.form<#mesh, pipe: at(0)>
module attributes {spmd.mesh = #mesh} {
  func.func @itself(%x: tensor<8xf32, #p0>) {
    // expected-error @+1 {{'spmd.transfer' op sends from point 0 to itself}}
    %0 = spmd.transfer %x over ["pipe"] from 0 to 0 : tensor<8xf32, #p0> -> tensor<8xf32, #p0>
    return
  }
}

// -----

#mesh = #spmd.mesh<pipe = 2>
#p0 = #spmd.form<#mesh, pipe: at(0)>
module attributes {spmd.mesh = #mesh} {
  func.func @no_point(%x: tensor<8xf32, #p0>) {
    // expected-error @+1 {{'spmd.broadcast' op names point 2 of axis "pipe" of size 2}}
    %0 = spmd.broadcast %x over ["pipe"] from 2 : tensor<8xf32, #p0> -> tensor<8xf32>
    return
  }
}

// -----

#mesh = #spmd.mesh<pipe = 2, data = 2>
#p0 = #spmd.form<#mesh, pipe: at(0)>
module attributes {spmd.mesh = #mesh} {
  func.func @two_axes(%x: tensor<8xf32>) {
    // expected-error @+1 {{'spmd.reduce' op names the axes ["pipe", "data"], expected one}}
    %0 = spmd.reduce %x over ["pipe", "data"] to 0 : tensor<8xf32> -> tensor<8xf32, #p0>
    return
  }
}

// -----

// Only one point has what would be summed.
#mesh = #spmd.mesh<pipe = 2>
#p0 = #spmd.form<#mesh, pipe: at(0)>
module attributes {spmd.mesh = #mesh} {
  func.func @sum(%x: tensor<8xf32, #p0>) {
    // expected-error @+1 {{'spmd.all_reduce' op runs over axis "pipe", on which its operand is 'at(0)', expected a tensor that all points hold}}
    %0 = spmd.all_reduce %x over ["pipe"] : tensor<8xf32, #p0> -> tensor<8xf32, #p0>
    return
  }
}

// -----

#mesh = #spmd.mesh<pipe = 2>
#other = #spmd.mesh<pipe = 4>
module attributes {spmd.mesh = #mesh} {
  func.func @mesh(%x: tensor<8xf32, #spmd.form<#other, pipe: at(0)>>) {
    // expected-error @+1 {{'spmd.broadcast' op has a form on the mesh #spmd.mesh<pipe = 4>, expected the module's, #spmd.mesh<pipe = 2>}}
    %0 = spmd.broadcast %x over ["pipe"] from 0 : tensor<8xf32, #spmd.form<#other, pipe: at(0)>> -> tensor<8xf32>
    return
  }
}
