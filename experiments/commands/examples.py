"""Two examples of every command, which its ``--help`` ends with; the tests run the quick ones."""

from __future__ import annotations

from itertools import groupby

LINES = (
    "papers speedup --array accpar-mixed --networks vgg16,resnet50 --planners hypar,accpar",
    "papers speedup --networks alexnet --levels 2-8 --format csv",
    "plan vgg16 --planner accpar --plot plan.png",
    "plan resnet18 --planner hypar --levels 4 --output plan.json",
    "simulate resnet50 --planner accpar --array tpu-v3-8 --batch 256",
    'simulate vgg16 --planner hypar --set network.bandwidth="100 Gbit/s" --format json',
    "timeline vgg16 --planner accpar --output step.png",
    "timeline resnet18 --planner hypar --devices board0,4-7 --output trace.json",
    "papers train resnet50 --method ad-psgd --array tpu-v3-8 --workers 8 --slowdown worker:0:5",
    "papers train vgg16 --compare all-reduce,prague,ad-psgd --array ethernet-100g --workers 16 "
    "--iterations 20 --slowdown random:0.1:6 --learn logistic --plot train.png",
    "papers compare alexnet --planners owt,accpar",
    "papers compare vgg16 --planners data_parallel,accpar --array tpu-v3-8 --plot both.png",
    "explain vgg16 --planner accpar",
    'explain alexnet --planner owt --array tpu-v3-8 --set devices.0.hbm.bandwidth="1 TB/s"',
    "fit gpt2 --array tpu-v3-8 --batch 16 --axes tp,pp",
    "fit llama3-70b --array h100-cluster --set nodes=128 --precision bf16 --batch 1024 "
    "--attention fused --plot fit.png",
    "sweep --networks alexnet --vary batch=64,128,256 --output batches.csv",
    'sweep --networks vgg19 --planners owt,accpar --vary network.bandwidth="1 Gbit/s:1 Tbit/s'
    ':log:4" --plot bandwidth.png',
    "papers results list --store results.db",
    "papers results export --store results.db --output results.csv",
    "papers report --output report.html",
    "papers report --networks lenet,alexnet --timeline alexnet --output all.html",
    'papers pipedream graph.txt --hierarchy "4@10 GB/s,4@1.25 GB/s"',
    "papers pipedream graph.json --planner max-load --devices 4 --format json",
    "papers reproduce hypar --figures 5,6",
    "papers reproduce accpar --plot figures",
    "papers validate",
    "papers validate --set roofline.pad_matrix_unit=128 --output errors.json",
    "papers calibrate measured.csv --output my-stack.toml",
    "papers calibrate measured.csv --format json",
    'collective all-reduce --bytes "100 MB" --array tpu-v3-pod',
    "collective all-gather --bytes 1e8 --array ring-8 --algorithm ring",
    "design lenet --space small --baselines",
    "design resnet50 bert-base --batch 8 --area 60 --plot pareto.png",
    "read ./Llama-3.1-8B --output llama.toml",
    "read pretrain.sh --format json",
    "list networks",
    "list arrays --format json",
    "show tpu-v3-8",
    "show resnet50 --output resnet50.onnx",
)
"""As they are typed after ``accelarray``."""
EXAMPLES = {
    command: [*lines]
    for command, lines in groupby(LINES, lambda one: one.removeprefix("papers ").split()[0])
}
"""The same by command."""


def epilog(command: str) -> str:
    """The end of its ``--help``."""
    lines = [wrapped(f"  accelarray {line}") for line in EXAMPLES.get(command, ())]
    return "\n".join(["examples:", *lines])


def wrapped(line: str, columns: int = 78) -> str:
    """A command of many words on several lines, as a shell reads it."""
    done = ""
    while len(line) > columns:
        cut = line.rindex(" --", 0, columns - 1)
        done, line = f"{done}{line[:cut]} \\\n", f"      {line[cut + 1 :]}"
    return done + line
