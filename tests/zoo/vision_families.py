"""Families that look at pictures."""

from __future__ import annotations

from typing import Any

from tests.zoo.family import Family
from tests.zoo.model_inputs import image_and_points, image_class, image_parts, images, video_class
from tests.zoo.small_models import family

_STAGES = {"hidden_sizes": [8, 16, 24, 32], "depths": [2, 2, 3, 2]}
_HEADS_OF_STAGES = {"hidden_sizes": [8, 16, 16, 32], "num_attention_heads": [1, 2, 2, 4]}


def _backbone(*stages: int) -> dict[str, Any]:
    """A ResNet that gives what these of its stages see."""
    return {"model_type": "resnet", "embedding_size": 8, **_STAGES, "out_indices": list(stages)}


FAMILIES: tuple[Family, ...] = (
    family("vit", "vision", "ForImageClassification", image_class()),
    family("deit", "vision", "DeiTForImageClassification", image_class()),
    family("beit", "vision", "ForImageClassification", image_class(), use_relative_position_bias=True),
    family("dinov2", "vision", "ForImageClassification", image_class()),
    family(
        "swin",
        "vision",
        "ForImageClassification",
        image_class(),
        patch_size=2,
        embed_dim=8,
        depths=[2, 2, 4],
        num_heads=[2, 2, 4],
        window_size=4,
    ),
    family(
        "hiera",
        "vision",
        "ForImageClassification",
        image_class(64),
        image_size=[64, 64],
        embed_dim=8,
        depths=[1, 2, 3, 1],
        num_heads=[1, 2, 2, 4],
        patch_size=[7, 7],
    ),
    family("focalnet", "vision", "ForImageClassification", image_class(), patch_size=4, embed_dim=8, depths=[2, 2, 2]),
    family("pvt", "vision", "ForImageClassification", image_class(64), image_size=64, patch_size=4, **_HEADS_OF_STAGES),
    family(
        "cvt",
        "vision",
        "ForImageClassification",
        image_class(64),
        embed_dim=[8, 16, 32],
        num_heads=[1, 2, 4],
        depth=[1, 2, 3],
    ),
    family(
        "levit",
        "vision",
        "LevitForImageClassification",
        image_class(64),
        image_size=64,
        hidden_sizes=[16, 32, 48],
        num_attention_heads=[1, 2, 3],
        depths=[2, 3, 2],
        key_dim=[8, 8, 8],
        patch_size=16,
    ),
    family("convnext", "vision", "ForImageClassification", image_class(), patch_size=2, **_STAGES),
    family("resnet", "vision", "ForImageClassification", image_class(), embedding_size=8, **_STAGES),
    family("regnet", "vision", "ForImageClassification", image_class(), embedding_size=8, groups_width=8, **_STAGES),
    family("poolformer", "vision", "ForImageClassification", image_class(64), **_STAGES),
    family("mobilenet_v2", "vision", "ForImageClassification", image_class(), depth_multiplier=0.25),
    family(
        "mobilevit",
        "vision",
        "ForImageClassification",
        image_class(64),
        hidden_sizes=[16, 24, 32],
        neck_hidden_sizes=[8, 8, 16, 16, 24, 32, 64],
        image_size=64,
        patch_size=2,
    ),
    family(
        "efficientnet",
        "vision",
        "ForImageClassification",
        image_class(),
        width_coefficient=0.25,
        depth_coefficient=0.5,
        hidden_dim=320,
    ),
    family("videomae", "vision", "ForVideoClassification", video_class, num_frames=4),
    family("timesformer", "vision", "ForVideoClassification", video_class, num_frames=4),
    family(
        "vit_mae",
        "vision",
        "ForPreTraining",
        images(),
        decoder_num_attention_heads=4,
        decoder_hidden_size=16,
        decoder_num_hidden_layers=2,
        decoder_intermediate_size=32,
    ),
    family(
        "segformer",
        "vision",
        "ForSemanticSegmentation",
        image_parts,
        decoder_hidden_size=16,
        **_HEADS_OF_STAGES,
    ),
    family(
        "dpt",
        "vision",
        "ForDepthEstimation",
        images(),
        backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[8, 8, 16, 16],
        fusion_hidden_size=8,
    ),
    family("yolos", "vision", "", images(), num_detection_tokens=5, image_size=[32, 32]),
    family("detr", "vision", "DetrForObjectDetection", images(64), num_queries=5, backbone_config=_backbone(4)),
    family("deformable_detr", "vision", "", images(64), num_queries=5, backbone_config=_backbone(2, 3, 4)),
    family(
        "mask2former",
        "vision",
        "",
        images(64),
        num_queries=5,
        feature_size=32,
        mask_feature_size=32,
        encoder_feedforward_dim=32,
        dim_feedforward=32,
        encoder_layers=2,
        decoder_layers=3,
        backbone_config=_backbone(1, 2, 3, 4),
    ),
    family(
        "sam",
        "vision",
        "",
        image_and_points,
        vision_config={
            "hidden_size": 32,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "image_size": 64,
            "patch_size": 8,
            "output_channels": 16,
            "window_size": 4,
            "global_attn_indexes": [1, 3],
            "mlp_dim": 64,
            "num_pos_feats": 8,
        },
        prompt_encoder_config={"hidden_size": 16, "image_size": 64, "patch_size": 8, "mask_input_channels": 4},
        mask_decoder_config={"hidden_size": 16, "mlp_dim": 32, "num_attention_heads": 2, "iou_head_hidden_dim": 16},
    ),
)
