;; Traps while it is instantiated.
(module
  @memory
  @open
  @apply
  (func $start unreachable)
  (start $start))
