"""torchvision's detectors in parts: resizing, the network, and the way back to the picture's size.

torchvision does all three inside the model. ``without_transforms`` takes the first and the last out, so that they are
stages of their own. The module imports torch. TorchScript reads its annotations, so they are evaluated.
"""

from typing import Any

from torch import Tensor
from torchvision.models.detection.transform import GeneralizedRCNNTransform


class BatchOnly(GeneralizedRCNNTransform):  # type: ignore[misc]  # torchvision has no types here
    """Makes a batch of pictures that are resized and normalized already, and leaves the detections alone."""

    def normalize(self, image: Tensor) -> Tensor:
        """Return the picture as it is."""
        return image

    def resize(self, image: Tensor, target: dict[str, Tensor] | None = None) -> tuple[Tensor, dict[str, Tensor] | None]:
        """Return the picture as it is."""
        return image, target

    def postprocess(
        self,
        result: list[dict[str, Tensor]],
        image_shapes: list[tuple[int, int]],
        original_image_sizes: list[tuple[int, int]],
    ) -> list[dict[str, Tensor]]:
        """Return the detections in pixels of the resized pictures."""
        return result


def without_transforms(detector: Any) -> Any:
    """Take resizing, normalizing and the way back to the picture's size out of ``detector``, in place."""
    whole = detector.transform
    batching = BatchOnly(
        whole.min_size, whole.max_size, whole.image_mean, whole.image_std, whole.size_divisible, whole.fixed_size
    )
    detector.transform = batching.train(whole.training)
    return detector
