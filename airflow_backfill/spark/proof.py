def prove_equal(*a): raise NotImplementedError
