;; Answers a thousand columns whose values are the same mebibyte: the guest has 3 MiB, and what it hands over has 1,000.
(module
  @memory
  @open
  (func (export "sluice:transform/transform@0.1.0#apply") (param i32 i32 i32 i32 i32) (result i32)
    (local $at i32)
    (local.set $at (i32.const 65536))
    (loop $more
      ;; No validity, no offsets; values at 2 MiB.
      (i32.store offset=20 (local.get $at) (i32.const 2097152))
      (i32.store offset=24 (local.get $at) (i32.const 1048576))
      (local.set $at (i32.add (local.get $at) (i32.const 28)))
      (br_if $more (i32.lt_u (local.get $at) (i32.const 93536))))
    (i32.store (i32.const 1028) (i32.const 65536))
    (i32.store (i32.const 1032) (i32.const 1000))
    (i32.const 1024)))
