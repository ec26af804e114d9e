// RUN: tandem-opt %s --tandem-split-reforms | FileCheck %s
// RUN: tandem-opt %s --tandem-split-reforms -o %t.mlir
// RUN: tandem-interpret %t.mlir --entry gradient --compare %s
// RUN: tandem-interpret %t.mlir --entry major --compare %s
// RUN: tandem-interpret %t.mlir --entry strands --compare %s

#mesh = #spmd.mesh<data = 2, model = 2, time micro = 2>
module attributes {spmd.mesh = #mesh} {
  // Over time first: the collective sends half as much.
  // CHECK-LABEL: func.func @gradient
  // CHECK: spmd.reform {{.*}}#reduce_data_reduce_micro> -> tensor<8xf32, #reduce_data>
  // CHECK-NEXT: spmd.reform {{.*}} -> tensor<8xf32, #gather0_data>
  // CHECK-NEXT: return
  func.func @gradient(%x: tensor<16x8xf32, #spmd.form<#mesh, data: gather(0), micro: gather(0)>>) -> tensor<8xf32, #spmd.form<#mesh, data: gather(0)>> {
    %g = nn.sum %x {dims = array<i64: 0>} : (tensor<16x8xf32, #spmd.form<#mesh, data: gather(0), micro: gather(0)>>) -> tensor<8xf32, #spmd.form<#mesh, data: reduce, micro: reduce>>
    %0 = spmd.reform %g : tensor<8xf32, #spmd.form<#mesh, data: reduce, micro: reduce>> -> tensor<8xf32, #spmd.form<#mesh, data: gather(0)>>
    return %0 : tensor<8xf32, #spmd.form<#mesh, data: gather(0)>>
  }

  // Data is the major axis of dimension 0: model has to leave it first, and
  // comes back. Sequences share their beginnings.
  // CHECK-LABEL: func.func @major
  // CHECK: %[[A:.*]] = spmd.reform %{{.*}} -> tensor<256x256xf32, #gather0_data_gather1_model>
  // CHECK-NEXT: %[[B:.*]] = spmd.reform %[[A]] {{.*}} -> tensor<256x256xf32, #gather1_model>
  // CHECK-NEXT: spmd.reform %[[B]] {{.*}} -> tensor<256x256xf32, #gather0_model>
  // CHECK-NEXT: return
  func.func @major(%x: tensor<256x256xf32, #spmd.form<#mesh, data: gather(0), model: gather(0)>>)
      -> (tensor<256x256xf32, #spmd.form<#mesh, model: gather(0)>>, tensor<256x256xf32, #spmd.form<#mesh, model: gather(1)>>) {
    %0 = spmd.reform %x : tensor<256x256xf32, #spmd.form<#mesh, data: gather(0), model: gather(0)>> -> tensor<256x256xf32, #spmd.form<#mesh, model: gather(0)>>
    %1 = spmd.reform %x : tensor<256x256xf32, #spmd.form<#mesh, data: gather(0), model: gather(0)>> -> tensor<256x256xf32, #spmd.form<#mesh, model: gather(1)>>
    return %0, %1 : tensor<256x256xf32, #spmd.form<#mesh, model: gather(0)>>, tensor<256x256xf32, #spmd.form<#mesh, model: gather(1)>>
  }

  // One collective over all strands would be cheaper than one per strand, but
  // nothing could be hidden then.
  // CHECK-LABEL: func.func @strands
  // CHECK: spmd.reform {{.*}} -> tensor<8x8xf32, #gather1_data_gather0_micro>
  // CHECK-NEXT: return
  func.func @strands(%x: tensor<8x8xf32, #spmd.form<#mesh, data: gather(1), model: gather(1), micro: gather(0)>>)
      -> tensor<8x8xf32, #spmd.form<#mesh, data: gather(1), micro: gather(0)>> {
    %0 = spmd.reform %x : tensor<8x8xf32, #spmd.form<#mesh, data: gather(1), model: gather(1), micro: gather(0)>> -> tensor<8x8xf32, #spmd.form<#mesh, data: gather(1), micro: gather(0)>>
    return %0 : tensor<8x8xf32, #spmd.form<#mesh, data: gather(1), micro: gather(0)>>
  }
}
