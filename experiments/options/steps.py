"""Options of a training step, and of where its result goes."""

from __future__ import annotations

from experiments.options.option import option, shown, switch

MODEL = (
    shown("batch N", "global batch size", "512, or the plan's", unit="samples", kind="int"),
    shown(
        "model.attention fused|unfused|eager",
        "attention kernel: fused stores no scores; unfused is two products and a softmax; "
        "eager has its mask in a kernel of its own",
        "as the network and the stack have it",
        kind="attention",
    ),
    option(
        "model.transform T",
        "change the network: circulant=B (block-circulant weights), zeros (transposed "
        "convolutions on inserted zeros), apart (element-wise kernels in front of products), "
        "eager (every element-wise operator a kernel), compiled (none is)",
        "none",
        kind="many",
    ),
    option(
        "model.mode training|inference",
        "what a step is; inference is the forward pass alone",
        "training",
    ),
    shown("networks N1,N2", "networks, or all: the nine of AccPar", value="all"),
    option(
        "model.layers FILE",
        "layer files of the AccPar authors' program, in place of NETWORK",
        kind="files",
    ),
)
ARRAY = (
    shown("array A", "array: a name (list arrays) or a .toml file", "accpar-mixed"),
    shown(
        "set KEY=VALUE",
        'set an option (list options) or a value of the array: network.bandwidth="100 Gbit/s"',
        kind="many",
    ),
    shown(
        "precision bf16|fp8|…",
        "number format of products and of stored tensors",
        "the array's",
        kind="spec",
    ),
    shown(
        "optimizer adam|sgd|adafactor",
        "optimizer, which sets the state of each parameter",
        "the array's",
        kind="spec",
    ),
    option(
        "price USD", "price of an hour of each chip", "the devices'", unit="dollars", kind="spec"
    ),
)
SPLIT = (
    shown("planner.name P", "planner: a name (list planners) or FILE.py:FUNCTION", flag="planner"),
    shown("plan FILE", "plan to run, written by plan --output FILE.json"),
    shown(
        "parallel AXES",
        "axes of parallelism: dp=16,tp=8,sp,pp=4,vp=2,cp=2,ep=8; without dp, the devices that "
        "are left",
    ),
    shown(
        "zero 0|1|2|3",
        "ZeRO stage: what dp and cp shard (1 optimizer state, 2 gradients, 3 weights)",
        "0, or as the planner says",
        kind="text",
    ),
    shown(
        "micro_batch N",
        "micro-batch size of each replica",
        "1 with pp, else the replica's whole share",
        unit="samples",
    ),
    shown(
        "recompute R",
        "activation recomputation: none, selective (attention), full, N blocks of each stage, "
        "or stages:all",
        "none",
    ),
    shown(
        "pipeline.schedule S",
        "pipeline schedule: gpipe, 1f1b, interleaved, zero-bubble, pipedream, 2bw, a .csv file, or "
        "FILE.py:NAME",
        "1f1b; interleaved with vp",
    ),
    option(
        "pipeline.stages P",
        "pipeline stages; --parallel pp=P says the same; auto: planner search finds the best",
        "1",
    ),
    option("pipeline.micro_batches M", "micro-batches of a batch", "1"),
    option("pipeline.virtual V", "stages of each place; --parallel vp=V", "1"),
    option("pipeline.cuts L1,L2", "layers that stages begin with", "whole blocks, or balanced"),
    option(
        "pipeline.tied copies",
        "weights that stages share: each stage stores a copy, and gradients are summed",
        "no copies",
    ),
    option(
        "pipeline.vertical_sync",
        "schedules without a flush: one weight version for a micro-batch in all stages",
        "no",
        kind="yes",
    ),
    option(
        "pipeline.batches N",
        "batches to simulate with schedules without a flush",
        "as many as needed",
    ),
    option(
        "planner.axis_order A1,A2", "order of axes on the machine, innermost first", "tp,cp,dp,pp"
    ),
    option(
        "stages.hw STAGES",
        "devices of each stage, as kind:tp x replicas: v100:1x4;t4:2x2, and @2 for two turns",
        flag="stage-hw",
    ),
    option(
        "stages.layers N1;N2",
        "blocks of each stage, or Megatron's layout, as Et*3|(tt|)*29L",
        "the same number each",
        flag="stage-layers",
    ),
    option(
        "planner.objective time|traffic",
        "what the planner minimizes: seconds, or elements as the AccPar authors' program does",
        value="time",
    ),
    option(
        "planner.communication printed|plotted",
        "traffic of exchanges: the papers' printed table, or the one that HyPar's figures follow",
        value="printed",
    ),
    shown("planners P1,P2", "planners, or all: the papers' four", value="all"),
)
SOFTWARE = (
    shown(
        "stack NAME",
        "software profile: kernel efficiencies, overlap and memory settings (list stacks)",
        "the array's",
        kind="spec",
    ),
    shown(
        "execution.model published|deployed",
        "published: the papers' formulas; deployed: links, memory and kernels",
        "the array's",
        flag="execution",
    ),
    shown("memory_reserve SHARE", "share of memory that a step may not use, as 6%", "the stack's"),
    option(
        "execution.overlap full|none",
        "overlap of communication with computation",
        "the stack's, else full",
    ),
    option(
        "execution.shards whole|exact",
        "shards of whole samples and channels, or exact fractions",
        "whole",
    ),
    option(
        "execution.bucket BYTES",
        "size of a gradient bucket; 0 sends each gradient by itself",
        "as the plan says, else 25 MiB; a stack's comes first",
        unit="bytes",
    ),
    option(
        "execution.update_order layers|arrival", "order of weight updates", "the stack's, or plan's"
    ),
    option(
        "execution.update replicated|sharded|gradients|weights|auto",
        "who updates replicated weights; --zero 0 to 3 says the first four",
        "as the plan says",
    ),
    option("execution.algorithm X", "algorithm of every collective", "auto, NCCL's or the fastest"),
    option(
        "execution.strict_memory",
        "make a step that does not fit in memory an error",
        "no, a warning",
        kind="switch",
    ),
    switch(
        "execution.unfolded",
        "simulate every device, not one of each group of identical devices",
        "no; the result is the same",
    ),
)
OUTPUT = (
    shown("config FILE", "read options from a TOML file; typed flags win"),
    shown("format table|json|csv|md", "output format", "by the name of --output"),
    shown("output FILE", "write the result to FILE", "the terminal"),
    option(
        "export megatron|torchtitan|maxtext|deepspeed|pipelining|dtensor",
        "write the plan as a framework's flags or file, its schedule as torch's .csv, or "
        "placements of its weights as JSON",
        "no",
    ),
    shown("plot FILE", "draw a picture (.png, .svg, .pdf)"),
    shown("metrics M1,M2", "what to show: time, energy, traffic", value="time"),
    shown("store FILE", "keep finished cases in FILE and run only missing ones"),
    shown("jobs N", "worker processes", "one a core", kind="int"),
    option("cluster ADDRESS", "dask scheduler, as tcp://host:8786"),
    option(
        "max_memory BYTES",
        "refuse a step whose simulation would hold more by the estimate, as 1.5GB; other steps run",
        "no limit",
        unit="bytes",
    ),
)
