"""The training loop: trainer, batches, optimizers with rounded updates, recorder, diagnosis, checkpoints, tasks."""
