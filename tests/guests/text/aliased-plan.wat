;; Opens with a plan that reads a thousand columns, the name of each being the same mebibyte.
(module
  @memory
  @apply
  (func (export "sluice:transform/transform@0.1.0#open")
    (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (local $at i32)
    (local.set $at (i32.const 65536))
    (loop $more
      (i32.store (local.get $at) (i32.const 2097152))
      (i32.store offset=4 (local.get $at) (i32.const 1048576))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (br_if $more (i32.lt_u (local.get $at) (i32.const 73536))))
    (i32.store (i32.const 524) (i32.const 65536))
    (i32.store (i32.const 528) (i32.const 1000))
    (i32.const 512)))
