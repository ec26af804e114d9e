// RUN: tandem-opt %s --split-input-file --verify-diagnostics

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
