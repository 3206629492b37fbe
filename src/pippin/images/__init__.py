"""Image classification with prediction sets: windows of photographs, training, and field models for new photographs.

The package needs the extra `vision`; to load and run a field model with an ONNX graph, the extra `field` is enough.
`FieldModel` and `Look` are imported on first access.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pippin.images.field_model import FieldModel, Look

__all__ = ["FieldModel", "Look"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'pippin.images' has no attribute {name!r}")
    from pippin._runtime.errors import need

    need("A field model", "field", "PIL")
    from pippin.images import field_model

    return getattr(field_model, name)
