"""From messages to a prompt: the model's own chat template in a confined process, our tool prompt where it knows none."""
