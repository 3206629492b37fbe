"""Triton's interpreter of kernels, to the same bits in a fraction of the time.

At every call of a function it looks through its language for what is built in, and it takes a xor of many numbers one
by one, in Python. Here the first is looked up once, and the second is NumPy's. A Triton that is made otherwise stays as
it is.
"""

import inspect
from functools import cache

import numpy as np


def quicken() -> None:
    """In this process."""
    import triton.language as tl
    from triton.runtime import interpreter

    inside = ((interpreter, "_patch_builtin"), (interpreter, "_patch_attr"), (interpreter, "_get_np_dtype"))
    inside += ((tl.core, "is_builtin"), (tl.standard, "_xor_combine"), (interpreter.ReduceOps, "generic_reduce"))
    if not all(hasattr(owner, name) for owner, name in inside):
        return
    slow_type, slow_reduce = cache(interpreter._get_np_dtype), interpreter.ReduceOps.generic_reduce

    @cache
    def built_in(owner):
        return [name for name, member in inspect.getmembers(owner) if tl.core.is_builtin(member)]

    def patch(owner, builder, scope):
        for name in built_in(owner):
            if tl.core.is_builtin(member := getattr(owner, name)):
                interpreter._patch_attr(owner, name, member, builder, scope)

    def numpy_type(kind):
        own = kind.element_ty if isinstance(kind, tl.block_type) else kind
        return np.dtype(np.uint64) if isinstance(own, tl.pointer_type) else slow_type(own)

    def reduce(self, given):
        if self.combine_fn is not tl.standard._xor_combine or self.axis is None:
            return slow_reduce(self, given)
        found = np.bitwise_xor.reduce(given[0].handle.data, axis=self.axis, keepdims=self.keep_dims)
        return [self.to_tensor(found, given[0].dtype)]

    interpreter._patch_builtin, interpreter._get_np_dtype = patch, numpy_type
    interpreter.ReduceOps.generic_reduce = reduce
