;; Grows its table until it is refused, which is as bad as memory: 8 bytes of the host's an element.
(module
  @memory
  @open
  (table $table 1 funcref)
  (func (export "sluice:transform/transform@0.1.0#apply") (param i32 i32 i32 i32 i32) (result i32)
    (loop $more
      (br_if $more
        (i32.ne (table.grow $table (ref.null func) (i32.const 10000)) (i32.const -1))))
    unreachable))
