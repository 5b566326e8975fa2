"""Options that one command has."""

from __future__ import annotations

from experiments.options.option import option, shown, switch

COMMANDS = (
    shown(
        "fit.axes A1,A2",
        "what to vary: tp, sp, pp, vp, cp, ep, micro-batch, recompute, zero, schedule, layers",
        "all of them; dp is what is left",
    ),
    option(
        "fit.best N|all",
        "combinations that the engine simulates; a quarter more where others may be faster",
        "20",
        kind="text",
    ),
    option("fit.at_most LIMITS", "limits of a combination: memory=0.94 (share), time=2s"),
    option("fit.tokens_per_step N", "tokens of a step, in place of --batch", kind="count"),
    option(
        "fit.objective time|tokens|cost|energy",
        "what to rank by: step time, tokens/s per chip, dollars or joules per token",
        value="time",
    ),
    switch(
        "sweep.estimate",
        "estimate steps of axes and data parallelism in closed form, which simulates nothing",
    ),
    option("fit.vary KEY=V1,V2", "several sizes of the array at once, as nodes=16,32,64"),
    option("run.tokens N", "tokens of a whole run: its steps, days, dollars", kind="count"),
    option(
        "simulate.spread WHAT",
        "chips and links that vary by chance: variation (of the array's spec), normal:0.02, "
        "lognormal:0.02, exponential:0.01 or random:0.001:1.5 of chips; links:normal:0.05; "
        "several multiply",
        kind="many",
    ),
    option(
        "simulate.repeats N",
        "simulated months with mtbf, steps with spread",
        "10 months, 50 steps",
        kind="int",
    ),
    option("simulate.seed S", "seed of all random draws", "0", kind="int"),
    option("goodput.mtbf TIME", "mean time between failures of a device, as 50000h"),
    option("goodput.storage_bandwidth B", 'bandwidth of the storage, as "2 TB/s"'),
    option(
        "goodput.checkpoint asynchronous|blocking",
        "whether the run goes on while a checkpoint is written",
        "blocking",
    ),
    option("goodput.checkpoint_every TIME", "time between checkpoints", "the best"),
    option(
        "goodput.copy_bandwidth B",
        "of a device to its host, which an asynchronous checkpoint waits for",
        "25 GB/s",
    ),
    option(
        "goodput.restart_time TIME",
        "from a failure until reading the checkpoint begins",
        "10 min",
    ),
    option("goodput.spares N", "devices beside the run", "always enough", kind="int"),
    option("goodput.repair_time TIME", "until a failed device is a spare", "1 d"),
    shown(
        "vary KEY=VALUES",
        "vary an option or a value of the array: batch=64,128, "
        'network.bandwidth="1 Gbit/s:1 Tbit/s:log:16" or "parallel=dp=4,tp=2;dp=8"; several make '
        "a grid",
        kind="many",
        required=True,
    ),
    shown(
        "timeline.devices D1,D2",
        "draw only these boards or cores, as the picture names them: board0, core3 or 0-7",
        "one of each identical group",
    ),
    shown(
        "collective.bytes N",
        'size of the full tensor: "100 MB", or a number',
        unit="bytes",
        required=True,
    ),
    option("planner.levels H", "2^H identical accelerators in place of --array", kind="int"),
    shown("speedup.levels H1,H2", "compare arrays of 2^H accelerators: 2,4,8 or 2-16"),
    switch(
        "speedup.baselines",
        "compare with two more forms of data parallelism, best_share and best_subset",
    ),
    shown("design.area MM2", "largest area of a chip", "the base design's", unit="mm2"),
    shown("design.power W", "largest power of a chip", "the base design's", unit="watts"),
    option("design.planner P", "planner on several cores", value="data_parallel"),
    shown(
        "design.objective throughput|throughput-per-watt|throughput-per-mm2",
        "what to maximize",
        value="throughput",
    ),
    shown("design.space FILE", "designs to search: wham, small or a .toml file", value="wham"),
    option("design.top K", "designs that each search keeps", value="3"),
    switch("design.each", "design for each network by itself"),
    option("design.search wham|random|exhaustive", "search method", value="wham"),
    option("design.budget N", "designs that each search may evaluate"),
    option("design.seed N", "seed of the random search", value="0"),
    switch("design.baselines", "compare the search, alone, with random and exhaustive search"),
    shown("design.device FILE", "write the best design as a device (.toml)"),
    shown(
        "train.method M",
        "method (list methods), module:class, or pipeline; with options: prague:group=4",
        value="all-reduce",
    ),
    option("train.compare M1,M2", "methods to compare on the same random draws"),
    shown("train.workers N", "number of workers", kind="int", required=True),
    shown("train.iterations K", "iterations of each worker, on average", kind="int", value=100),
    option(
        "train.until average|everybody",
        "end of the run: N x K iterations together, or K by every worker",
        value="average",
    ),
    option("train.seed S", "seed of all random draws", "0", kind="int", value=0),
    shown(
        "train.slowdown WHAT",
        "slow workers: worker:0:5, random:0.1:6, normal:0.02, lognormal:0.3, exponential:0.5, "
        "link:NAME:10, die:3:0.5, join:3:0.5, none, or a file; several multiply",
        "none",
        kind="many",
    ),
    option(
        "train.graph G",
        "communication graph: ring, ring-based, double-ring, torus, exponential, complete, or a "
        "file of edges",
        "the method's",
    ),
    option("train.learn PROBLEM", "train a real model: logistic, two-layer, quadratic"),
    option("train.loss L", "report when the loss was L, with train.learn", kind="float"),
    option("train.rate R", "learning rate, with train.learn", "the problem's", kind="float"),
    option("train.report FILE", "write an HTML page (.html)"),
    option("train.trace FILE", "write a trace for ui.perfetto.dev (.json, .json.gz)"),
    option(
        "compare.trace FILE",
        "compare with one rank of a measured step: a trace of PyTorch's profiler (.json, .json.gz)",
    ),
    option(
        "train.history FILE",
        "write what happened to models, and the models at the end, with train.learn (.json)",
    ),
    option(
        "results.where KEY=VALUE",
        "results of these inputs alone, as network=lenet; prune deletes them",
        kind="many",
    ),
    option(
        "report.timeline NETWORK",
        "network whose plan and step are drawn",
        "resnet18's plan, vgg11's step",
    ),
    option("report.title TEXT", "title of the page", "what is compared"),
    shown("reproduce.figures F1,F2", "figures to reproduce, or all", value="all"),
    option("reproduce.plot_format png|svg|pdf", "format of the pictures", value="png"),
    option(
        "validate.table FILE",
        "latencies of collectives (.csv, columns: docs/how-to/validate.md), or measured TPU steps",
        "the built-in table",
    ),
    shown(
        "validate.rows FILE",
        "measured steps of transformers to predict (.csv, columns: docs/reference/specs.md)",
    ),
    option("validate.calibration FILE", "rows that constants are fitted to", "the built-in rows"),
    option(
        "validate.per_source N",
        "rows of each source that set a factor for it and are left out of the errors",
        kind="int",
        value=0,
    ),
    switch(
        "validate.estimate",
        "estimate the rows in closed form (first pass), which simulates none of them",
    ),
    switch("validate.rank", "show how well plans of one job are ordered"),
)
PIPEDREAM = (
    option(
        "pipedream.profile FILE", "profile to plan, with --planner pipedream, max-load or phaze"
    ),
    option(
        "pipedream.cost_model paper|repo",
        "pipedream: the paper's formulas, or the released program's",
        "paper",
    ),
    shown(
        'pipedream.hierarchy "N@B,..."',
        'pipedream: machines and links, innermost first: "4@10 GB/s,4@1.25 GB/s"',
    ),
    option(
        "pipedream.activation_ratio R",
        "pipedream: factor by which activations between stages are smaller",
        "1 with paper; with repo, activations are not counted",
        kind="float",
    ),
    switch("pipedream.straight", "pipedream: no replicas"),
    switch("pipedream.fewer", "pipedream: devices may stay idle"),
    shown("pipedream.devices N", "max-load, phaze: number of devices", kind="int"),
    option("pipedream.cpus N", "max-load: number of CPUs", "the file's", kind="int"),
    option("pipedream.bandwidth B", 'phaze: bandwidth of every link, as "10 GB/s"', unit="bytes/s"),
    option("pipedream.memory BYTES", "memory of a device", "max-load: the file's", unit="bytes"),
)
