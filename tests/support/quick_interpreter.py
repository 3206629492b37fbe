"""Triton's interpreter of kernels, in a fraction of the time.

At every call of a function it looks through its language for what is built in, and it combines many numbers one by one,
in Python. Here the language is changed once for each kernel, and numbers are combined half by half, as a GPU does it:
so a sum of floats may round otherwise, on which no kernel may depend. A Triton that is made otherwise stays as it is.
"""

import inspect
from functools import cache

import numpy as np


def quicken() -> None:
    """In this process."""
    import triton.language as tl
    from triton.runtime import interpreter

    inside = ((interpreter, "_patch_builtin"), (interpreter, "_patch_attr"), (interpreter, "_get_np_dtype"))
    inside += ((interpreter, "_patch_lang"), (interpreter, "_LangPatchScope"), (tl.core, "is_builtin"))
    inside += ((interpreter.ReduceOps, "generic_reduce"),)
    if not all(hasattr(owner, name) for owner, name in inside):
        return
    slow_type, slow_reduce = cache(interpreter._get_np_dtype), interpreter.ReduceOps.generic_reduce
    slow_patch = interpreter._patch_lang

    @cache
    def languages(function):
        return [value for value in function.__globals__.values() if value is tl or value is tl.core]

    def patch_language(function):
        if any(tl.core.is_builtin(language.load) for language in languages(function)):
            return slow_patch(function)
        return interpreter._LangPatchScope()  # the kernel that calls it has changed everything

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
        if self.axis is None or len(given) > 1:
            return slow_reduce(self, given)
        kind, left = given[0].dtype, np.moveaxis(given[0].handle.data, self.axis, 0)
        while len(left) > 1:
            left = self.combine_fn.fn(*(self.to_tensor(left[half::2], kind) for half in (0, 1))).handle.data
        return [self.to_tensor(np.expand_dims(left[0], self.axis) if self.keep_dims else left[0], kind)]

    interpreter._patch_lang, interpreter._patch_builtin = patch_language, patch
    interpreter._get_np_dtype, interpreter.ReduceOps.generic_reduce = numpy_type, reduce
