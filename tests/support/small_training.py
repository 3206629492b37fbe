"""Fast training: a very small network, few epochs, small images."""

import torch

from pippin.images.training import Options

# Modules of processes that train or predict images.
HEAVY = ["transformers.models.auto.modeling_auto", "transformers.models.resnet.modeling_resnet", "pippin.cli"]


def make_weights(folder):
    """Write a folder with the weights of a very small network of seven classes."""
    from transformers import AutoModelForImageClassification, ResNetConfig

    config = ResNetConfig(depths=[1, 1], hidden_sizes=[8, 16], layer_type="basic", embedding_size=8, num_labels=7)
    torch.manual_seed(5)
    AutoModelForImageClassification.from_config(config).save_pretrained(folder)
    return folder


def small_options(weights, **more):
    return Options(**{"weights": str(weights), "epochs": 3, "batch": 16, "size": 24, "learning_rate": 0.01} | more)


def quiet(epoch):
    """Ignore the progress of an epoch."""
