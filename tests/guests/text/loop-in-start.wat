;; Never comes to its first call: the module's start function has no end.
(module
  @memory
  @open
  @apply
  (func $start (loop $forever (br $forever)))
  (start $start))
