"""Parts of loops, which become machine code only within the loops that call them.

numba makes every function ready to be called: it is optimised together with copies of all that it calls, which were
optimised before, and translated with them, level for level. Nobody but a loop calls a part, so a part waits. That
needs the inside of numba: where its version is none that this was tried with, parts are compiled as numba does.
"""

from typing import Any

import numba
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class PartLibrary(JITCodeLibrary):
    """The instructions of one part and of all that it calls, as they were written down."""

    def finalize(self) -> None:
        """Links what the part calls: whoever calls the part optimises both, and translates them."""
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """0: there is no machine code to point to."""
        own: Any = self
        own._ensure_finalized()
        return 0

    @property
    def codegen(self) -> Any:
        """Who is told of the part's environment, of which only machine code knows."""
        return self

    def set_env(self, name: str, env: Any) -> None:
        """Forgets it."""


class PartCompiler(Compiler):
    """numba's compiler, which keeps a part as a `PartLibrary`."""

    def define_pipelines(self) -> Any:
        state: Any = self.state
        library: Any = PartLibrary
        state.library = library(state.targetctx.codegen(), state.func_id.func_qualname)
        define: Any = super().define_pipelines
        return define()


TRIED = ("0.68.",)
part_compiler: Any = PartCompiler if numba.__version__.startswith(TRIED) else Compiler
