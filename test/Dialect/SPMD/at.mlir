// RUN: tandem-opt %s | tandem-opt | FileCheck %s

// Tensors on one point of an axis, before and behind localize.
// CHECK: #mesh = #spmd.mesh<pipe = 2, data = 2, time micro = 2>
#mesh = #spmd.mesh<pipe = 2, data = 2, time micro = 2>
#h0 = #spmd.form<#mesh, pipe: at(0), data: gather(0), micro: gather(0)>
#h1 = #spmd.form<#mesh, pipe: at(1), data: gather(0), micro: gather(0)>
#w0 = #spmd.form<#mesh, pipe: at(0)>
#w1 = #spmd.form<#mesh, pipe: at(1)>
module attributes {spmd.mesh = #mesh} {
  // CHECK-LABEL: func.func @sections
  func.func @sections(%x: tensor<32x16xf32, #h0>, %w: tensor<16x64xf32, #w0>, %b: tensor<64xf32>) -> tensor<32x64xf32, #h1> {
    // CHECK: nn.matmul {{.*}} -> tensor<32x64xf32, #at0_pipe_gather0_data_gather0_micro>
    %0 = nn.matmul %x, %w : (tensor<32x16xf32, #h0>, tensor<16x64xf32, #w0>) -> tensor<32x64xf32, #h0>
    // CHECK: spmd.reform %{{.*}} -> tensor<32x64xf32, #at1_pipe_gather0_data_gather0_micro>
    %1 = spmd.reform %0 : tensor<32x64xf32, #h0> -> tensor<32x64xf32, #h1>
    // What all points hold goes with what one holds.
    %2 = nn.add %1, %b : (tensor<32x64xf32, #h1>, tensor<64xf32>) -> tensor<32x64xf32, #h1>
    return %2 : tensor<32x64xf32, #h1>
  }

  // CHECK-LABEL: func.func @changes
  func.func @changes(%x: tensor<8xf32>) -> tensor<8xf32> {
    // CHECK: spmd.keep_at %arg0 over ["pipe"] point 0 : tensor<8xf32> -> tensor<8xf32, #at0_pipe>
    %0 = spmd.keep_at %x over ["pipe"] point 0 : tensor<8xf32> -> tensor<8xf32, #w0>
    // CHECK: spmd.transfer %0 over ["pipe"] from 0 to 1 : tensor<8xf32, #at0_pipe> -> tensor<8xf32, #at1_pipe>
    %1 = spmd.transfer %0 over ["pipe"] from 0 to 1 : tensor<8xf32, #w0> -> tensor<8xf32, #w1>
    // CHECK: spmd.zero_others %1 over ["pipe"] point 1 : tensor<8xf32, #at1_pipe> -> tensor<8xf32>
    %2 = spmd.zero_others %1 over ["pipe"] point 1 : tensor<8xf32, #w1> -> tensor<8xf32>
    // CHECK: spmd.reduce %2 over ["pipe"] to 1 : tensor<8xf32> -> tensor<8xf32, #at1_pipe>
    %3 = spmd.reduce %2 over ["pipe"] to 1 : tensor<8xf32> -> tensor<8xf32, #w1>
    // CHECK: spmd.broadcast %3 over ["pipe"] from 1 : tensor<8xf32, #at1_pipe> -> tensor<8xf32>
    %4 = spmd.broadcast %3 over ["pipe"] from 1 : tensor<8xf32, #w1> -> tensor<8xf32>
    return %4 : tensor<8xf32>
  }
}
