"""Tiny reward models, and what plain transformers makes of a text."""

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer


def write_reward_model(folder, like, *, labels=1, chat=True):
    """Write a model with the body and the tokenizer of another, and a random head."""
    tokenizer = AutoTokenizer.from_pretrained(like)
    if not chat:
        tokenizer.chat_template = None
    tokenizer.save_pretrained(folder)
    torch.manual_seed(4)
    AutoModelForSequenceClassification.from_pretrained(like, num_labels=labels).save_pretrained(folder)
    return folder


def reward_of(folder, text, *, special=True):
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    ids = AutoTokenizer.from_pretrained(folder).encode(text, add_special_tokens=special)
    with torch.no_grad():
        return float(model(torch.tensor([ids])).logits[0, 0])
