"""Models by name: what a library's metadata says becomes a workload, and a name that it lacks is one line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from modelzoo.errors import ModelzooError
from modelzoo.workload import InputRequest, Workload
from modelzoo.workload.discovery import CHECKOUT, ZOO, find_workload, library_models, load_workload

SMALL_BERT = "hf:config=BertConfig,num_hidden_layers=1,hidden_size=32,num_attention_heads=2,intermediate_size=64"

SMALL_VIT = (
    "hf:config=ViTConfig,num_hidden_layers=1,hidden_size=32,num_attention_heads=2,image_size=64,"
    "architecture=ViTForImageClassification"
)


def named(name: str) -> Workload:
    return load_workload(find_workload(name))


def batch(work: Workload, **options: Any) -> tuple[Any, ...]:
    """The arguments of one batch of two items."""
    return work.inputs(InputRequest(2, 0, None, work.option_values(options))).args


def output(work: Workload, **options: Any) -> Any:
    """What the model with random weights returns for ``batch``."""
    import torch

    model = work.build(work.option_values(options)).eval()
    with torch.inference_mode():
        return model(*batch(work, **options))


@pytest.mark.parametrize(
    ("name", "unit", "quality", "shapes"),
    [
        ("mobilenet_v3_small", "images", {"top1": 67.668, "top5": 87.402}, [(2, 3, 224, 224)]),
        ("lraspp_mobilenet_v3_large", "images", {}, [(2, 3, 609, 520)]),
        ("s3d", "clips", {}, [(2, 3, 16, 224, 224)]),
        ("raft_small", "pairs", {}, [(2, 3, 520, 960), (2, 3, 520, 960)]),
        # Pictures of a detector keep their sizes; the published quality is the box AP.
        ("ssdlite320_mobilenet_v3_large", "images", {"box_ap": 21.3}, [3, 3]),
    ],
)
def test_a_model_of_torchvision_has_its_task_its_weights_and_their_quality(
    name: str, unit: str, quality: dict[str, float], shapes: list[Any]
) -> None:
    """The kind of model decides the inputs; only what has labels here is judged."""
    work = named(f"torchvision:{name}")
    checkpoint: Any = work.checkpoint({})
    assert (work.name, work.unit, work.directory) == (f"torchvision:{name}", unit, ZOO)
    assert checkpoint.digest
    assert checkpoint.quality == quality
    assert (work.judge is not None) == bool(quality)
    args = batch(work)
    found = [each.shape[0] for each in args[0]] if "box_ap" in quality else [tuple(each.shape) for each in args]
    assert found == shapes


@pytest.mark.parametrize("name", ["googlenet", "mobilenet_v3_small"])
def test_a_model_of_torchvision_has_the_layers_of_its_published_weights(name: str) -> None:
    """Builders add layers when they load published weights, such as auxiliary classifiers; so does the workload."""
    from torchvision.models import get_model_weights

    model = named(f"torchvision:{name}").build({})
    assert sum(each.numel() for each in model.parameters()) >= get_model_weights(name).DEFAULT.meta["num_params"]
    assert name != "googlenet" or any(key.startswith("aux1.") for key in model.state_dict())


def test_a_model_of_timm_has_its_own_size_and_preprocessing() -> None:
    """Input size, weights and classes are those of the pretrained tag."""
    work = named("timm:resnet10t.c3_in1k")
    checkpoint = work.checkpoint({})
    assert (checkpoint.source, checkpoint.size) == ("timm/resnet10t.c3_in1k", "size unknown")
    assert work.judge is not None
    assert tuple(output(work).shape) == (2, 1000)
    assert tuple(batch(work)[0].shape) == (2, 3, 176, 176)


@pytest.mark.parametrize(
    ("config", "unit", "options", "shape"),
    [
        (SMALL_BERT, "items", {"sequence": 16}, (2, 16, 32)),
        (f"{SMALL_BERT},architecture=BertForSequenceClassification", "texts", {"sequence": 16}, (2, 2)),
        (SMALL_VIT, "images", {}, (2, 2)),
        (
            "hf:config=T5Config,num_layers=1,d_model=32,d_ff=64,num_heads=2,d_kv=16,vocab_size=99",
            *("items", {"sequence": 16}, (2, 16, 32)),
        ),
    ],
)
def test_a_config_of_transformers_is_a_network_that_needs_no_download(
    config: str, unit: str, options: dict[str, object], shape: tuple[int, ...]
) -> None:
    """Text, pictures and encoders with decoders run with random weights; outputs are tensors alone."""
    import torch

    work = named(config)
    found = output(work, **options)
    assert work.unit == unit
    assert work.checkpoint({}) is None
    assert all(isinstance(each, torch.Tensor) for each in found)
    assert tuple(found[0].shape) == shape


def test_an_image_classifier_is_prepared_for_and_judged_as_its_checkpoint_says(tmp_path: Path) -> None:
    """Its processor makes the pictures; its labels are classes; ImageNet's ids go with its labels alone."""
    from PIL import Image
    from torchvision.models import ResNet50_Weights
    from transformers import ViTImageProcessor

    from modelzoo.zoo.hf import is_imagenet

    source = named(SMALL_VIT)
    source.build({}).model.save_pretrained(tmp_path)
    bare = named(f"hf:{tmp_path}")
    assert batch(bare)[0].equal(batch(source)[0])
    with pytest.raises(ModelzooError, match=r"has no preprocessor_config.json, which says how pictures are prepared"):
        bare.judge({}).preprocess(Image.new("RGB", (80, 80)))
    ViTImageProcessor(size={"height": 64, "width": 64}, image_mean=[0.0] * 3, image_std=[0.5] * 3).save_pretrained(
        tmp_path
    )
    work = named(f"hf:{tmp_path}")
    (pictures,), (others,) = batch(work), batch(source)
    judge = work.judge({})
    assert (judge.labels(), judge.wnids()) == (["LABEL_0", "LABEL_1"], None)
    assert pictures.shape == others.shape
    assert float(pictures.min()) >= 0 > float(others.min())
    known = [f"{name}, a species" for name in ResNet50_Weights.DEFAULT.meta["categories"]]
    assert is_imagenet(known)
    assert not is_imagenet(known[::-1])
    assert not is_imagenet(known[:500])


def test_a_causal_language_model_is_timed_as_llm_is() -> None:
    """Its class decides: prompts, new tokens, and the judge of language models."""
    work = named(
        "hf:config=LlamaConfig,num_hidden_layers=1,hidden_size=32,num_attention_heads=2,num_key_value_heads=2,"
        "intermediate_size=64,vocab_size=300,architecture=LlamaForCausalLM"
    )
    assert (work.unit, [option.name for option in work.options]) == ("prompts", ["prompt-tokens", "new-tokens"])
    assert work.generate and work.judge


def test_a_checkpoint_directory_is_a_workload_whose_weights_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path is made absolute for workers; the name is the directory's; the weights are its own."""
    from modelzoo.workload.weights import load_model, resolve_weights

    source = named(f"{SMALL_BERT},architecture=BertForQuestionAnswering")
    source.build({}).model.save_pretrained(tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    work = named("hf:./mine")
    assert (work.name, work.place) == ("hf:mine", f"hf:{tmp_path / 'mine'}")
    assert work.judge is not None
    weights = resolve_weights(work, work.option_values({}), "auto", 0)
    assert weights.path == str(tmp_path / "mine")
    assert type(load_model(work, {}, weights).module.model).__name__ == "BertForQuestionAnswering"


def test_containers_and_other_hosts_get_the_model_that_was_named() -> None:
    """Of a checkpoint directory, the path within the name is mounted, and translated; the library's code is not."""
    from modelzoo.fleet.shards import sharded_call
    from modelzoo.measure.mounts import inside, named_files, place
    from modelzoo.records.protocol import PrepareJob
    from modelzoo.records.validity import ValidityRequest
    from modelzoo.setting import Setting

    job, other = (PrepareJob(name, (Setting(),), 1) for name in ("hf:/home/me/mine", "torchvision:vit_b_16"))
    assert (named_files(job, {}), named_files(other, {})) == (("/home/me/mine",), ())
    assert inside(b'{"directory":"hf:/home/me/mine"}', job, named_files(job, {}), "") == (
        f'{{"directory":"hf:{place("/home/me/mine")}"}}'.encode()
    )
    assert sharded_call(named(other.directory), Setting(), ValidityRequest()).workload == other.directory


LISTED = "; modelzoo list {}: prints them"
LACKS = {
    "torchvision:vitb16": f"torchvision has no model 'vitb16'; did you mean 'vit_b_16'?{LISTED.format('torchvision')}",
    "timm:resnet10tt": f"timm has no model 'resnet10tt'; did you mean 'resnet10t'?{LISTED.format('timm')}",
    "timm:resnet10t.mine": "timm has no weights 'mine' of resnet10t (it has: c3_in1k)",
    "hf:config=BrtConfig": f"transformers has no config 'BrtConfig'; did you mean 'BertConfig'?{LISTED.format('hf')}",
    "hf:config=BertConfig,num_layers=3": "hf:config=BertConfig,num_layers=3: BertConfig has no argument 'num_layers'; "
    "did you mean 'num_hidden_layers'?",
    "hf:config=BertConfig,hidden_size=x": "hf:config=BertConfig,hidden_size=x: hidden_size cannot be 'x'; its default "
    "is 768",
    "hf:./nope": "'./nope' is neither a directory with a config.json nor an id such as google/vit-base",
    "hf:config=CLIPConfig": "hf:config=CLIPConfig: CLIPModel has inputs that cannot be made here; write a workload.py",
    "tensorflow:resnet": "no workload 'tensorflow:resnet': give one of resnet50, ssd, maskrcnn, bert, llm, a directory "
    "that holds a workload.py, or a model as LIBRARY:NAME (torchvision, timm, hf)",
}


@pytest.mark.parametrize("name", LACKS)
def test_a_name_that_a_library_lacks_is_one_line(name: str) -> None:
    """The line names the nearest one, and the command that prints all."""
    with pytest.raises(ModelzooError) as error:
        named(name)
    assert str(error.value) == LACKS[name]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"model_type": "bert"}, 'its config.json names no architecture; add "architectures": ["BertModel"]'),
        (
            {"model_type": "bert", "architectures": ["MyBert"]},
            "has no architecture MyBert, and code of a checkpoint is never run; build it in a workload.py of your own",
        ),
    ],
)
def test_code_of_a_checkpoint_is_never_run(tmp_path: Path, content: dict[str, object], reason: str) -> None:
    """Only architectures of the library itself are built."""
    (tmp_path / "config.json").write_text(json.dumps(content))
    with pytest.raises(ModelzooError) as error:
        named(f"hf:{tmp_path}")
    assert str(error.value).endswith(reason)


def test_a_directory_of_the_same_name_is_no_model_of_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout has a directory resnet50; only one with a config.json is a checkpoint, and that of transformers."""
    monkeypatch.chdir(CHECKOUT)
    assert named("torchvision:resnet50").place == "torchvision:resnet50"
    with pytest.raises(ModelzooError):
        named("hf:./resnet50")


def test_a_network_that_cannot_be_built_or_a_text_that_is_too_long_is_one_line() -> None:
    """The library's own reason is shown; positions that an architecture lacks are refused, not cut off in silence."""
    with pytest.raises(ModelzooError, match="hidden_size=100: BertModel cannot be built: The hidden size"):
        named("hf:config=BertConfig,hidden_size=100").build({})
    work = named("hf:config=RobertaConfig,max_position_embeddings=514")
    with pytest.raises(ModelzooError, match="^--sequence must be 512 or less, not 513$"):
        work.option_values({"sequence": 513})


def test_random_weights_belong_to_one_network(tmp_path: Path) -> None:
    """Two directories of one name have different files; a name may be longer than a file's."""
    from modelzoo.workload.weights import _random_file_name

    found = set()
    for place, layers in (("a", 1), ("b", 2)):
        directory = tmp_path / place / "mine"
        directory.mkdir(parents=True)
        config = {"model_type": "bert", "architectures": ["BertModel"], "num_hidden_layers": layers}
        (directory / "config.json").write_text(json.dumps(config))
        work = named(f"hf:{directory}")
        assert work.name == "hf:mine"
        found.add(_random_file_name(work, work.option_values({}), 0))
    assert len(found) == 2
    long = named(f"{SMALL_BERT},max_position_embeddings=64,type_vocab_size=2,initializer_range=0.02,pad_token_id=0")
    assert len(_random_file_name(long, long.option_values({}), 0)) < 255


def test_a_library_that_is_not_installed_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """timm is optional."""
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ModelzooError, match=r"^timm cannot be imported \(.*\): run pip install timm$"):
        named("timm:resnet10t")


def test_list_prints_the_models_of_a_library_as_they_are_named() -> None:
    """Each line can be given to run; int8 models are left out."""
    found = library_models("torchvision:")
    assert "torchvision:vit_b_16" in found
    assert not any("quantized" in name for name in found)
    with pytest.raises(ModelzooError, match="^no library 'keras': give one of torchvision:, timm:, hf:$"):
        library_models("keras")
