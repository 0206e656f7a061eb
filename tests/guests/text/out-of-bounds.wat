;; Answers one column whose values lie beyond its memory.
(module
  @memory
  @open
  (data (i32.const 1028) "\00\08\00\00\01\00\00\00")
  (data (i32.const 2068) "\00\00\00\7f\10\00\00\00")
  @apply)
