"""Plans by named axes of parallelism: data, pipeline, tensor, expert, as large models are run."""
