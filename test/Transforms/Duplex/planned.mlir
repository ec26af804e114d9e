// A plan's signatures that nobody has applied are no way to run on one device.
// RUN: tandem-opt %s --tandem-schedule --split-input-file --verify-diagnostics

module attributes {spmd.mesh = #spmd.mesh<data = 2>} {
  func.func @step(%x: tensor<4xf32> {nn.name = "x", nn.role = #nn.role<input>}) -> (tensor<4xf32> {nn.name = "y", nn.role = #nn.role<output>}) {
    // expected-error@+1 {{has signatures in 'spmd.plan', expected none: run the stages shard, localize and duplex first}}
    %0 = nn.exp %x {spmd.plan = #spmd.plan<signatures = <"gather(0) -> gather(0)">>} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
