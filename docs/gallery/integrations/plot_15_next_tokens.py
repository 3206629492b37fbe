"""
How do I get prediction sets for next tokens?
=============================================

A language model returns a probability for every token of its vocabulary. A
prediction set is a short list of next tokens that contains the actual one with
a chosen probability.

.. admonition:: The guarantee
   :class: guarantee

   A token drawn at random from a *new text of the same distribution* is in its
   set with probability at least 1 − alpha, if the predictor is calibrated with
   texts as units.
"""

# %%
# A small language model
# ----------------------
# The page generates its own texts, log lines of a robot, and trains a tiny
# GPT-2 on them for some seconds. Nothing is downloaded.

# sphinx_gallery_thumbnail_path = '_static/thumbnails/15.svg'
import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

logging.set_verbosity_error()
rng = np.random.default_rng(0)
torch.manual_seed(0)


PLANTS = ["maize", "wheat", "beet", "charlock", "cleavers", "mayweed"]


def entry(rng, plants=(0.3, 0.25, 0.2, 0.1, 0.1, 0.05), doubts=(0.6, 0.3, 0.1)):
    """Return a line of the log as a list of words."""
    plant = str(rng.choice(PLANTS, p=plants))
    sure = str(rng.choice(["certainly", "probably", "perhaps"], p=doubts))
    does = (
        "asks a person"
        if sure == "perhaps"
        else ("sprays it" if plant in PLANTS[3:] else "leaves it")
    )
    row = rng.integers(1, 7)
    return f"in row {row} the robot {sure} sees {plant} and {does} .".split()


texts = [entry(rng) for _ in range(2000)]
vocabulary = sorted({word for text in texts for word in text} | {"<start>"})
number = {word: i for i, word in enumerate(vocabulary)}
print(" ".join(texts[0]), f"({len(vocabulary)} words in the vocabulary)")

# %%


def tokens(texts):
    """Return texts as rows of token numbers, padded with −100."""
    length = 1 + max(map(len, texts))
    rows = [
        [number["<start>"], *(number[word] for word in text)] for text in texts
    ]
    return torch.tensor([row + [-100] * (length - len(row)) for row in rows])


config = GPT2Config(
    vocab_size=len(vocabulary),
    n_positions=16,
    n_embd=48,
    n_layer=2,
    n_head=2,
    bos_token_id=0,
    eos_token_id=0,
)
model = GPT2LMHeadModel(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.005)
seen = tokens(texts)
for _ in range(120):
    rows = seen[torch.randint(len(seen), (64,))]
    optimizer.zero_grad()
    loss = model(input_ids=rows.clamp(min=0), labels=rows).loss
    loss.backward()
    optimizer.step()
model.eval()
print(
    f"{model.num_parameters():,} parameters, loss {loss.item():.2f} at the end"
)

# %%
# Calibrate on whole texts
# ------------------------
# Tokens of one text depend on each other: they are clustered data. ``units=``
# gives the text of every token, and the calibration counts each text once.

import pippin


def next_tokens(texts):
    """Return the probabilities of every next token, the token, and its text."""
    rows = tokens(texts)
    with torch.no_grad():
        probs = (
            model(input_ids=rows.clamp(min=0)).logits[:, :-1].softmax(dim=-1)
        )
    actual = rows[:, 1:]
    return (
        probs[actual >= 0].numpy(),
        actual[actual >= 0].numpy(),
        torch.nonzero(actual >= 0)[:, 0].numpy(),
    )


probs, actual, text = next_tokens([entry(rng) for _ in range(500)])
predictor = pippin.calibrate(
    probs, actual, "pip", alpha=0.02, classes=vocabulary, units=text
)
predictor

# %%

new = [entry(rng) for _ in range(1000)]
probs, actual, text = next_tokens(new)
sets = predictor.predict(probs)
covered = pippin.metrics.coverage(sets, actual)
print(f"coverage {covered:.1%} on {len(actual):,} new tokens")
print(f"size {pippin.metrics.mean_size(sets):.2f}")

# %%
# The figure shows one line of the log. If the grammar allows one word, the set
# has one word; if several plants or actions are possible, the set has several.

import matplotlib.pyplot as plt

first = text == next(i for i, line in enumerate(new) if "charlock" in line)
words, members = (
    np.array(vocabulary)[actual[first]],
    [sets[i] for i in np.flatnonzero(first)],
)
fig, ax = plt.subplots(figsize=(11, 4.6))
for place, (word, held) in enumerate(zip(words, members, strict=True)):
    ax.bar(place, len(held), color="C0" if word in held else "C1", width=0.94)
    for height, member in enumerate(held):
        weight = "bold" if member == word else "normal"
        ax.text(
            place,
            height + 0.5,
            member,
            ha="center",
            va="center",
            fontsize=9.5,
            color="white",
            weight=weight,
        )
ax.set_xticks(range(len(words)), words)
ax.set(ylabel="size (words in the set)", xlabel="actual word")
ax.set_title("Sets of next words: 98% of them contain the actual word")
ax.grid(axis="x", visible=False)
plt.show()

# %%
# What can go wrong
# -----------------
# **Coverage of tokens is not coverage of texts.** A line has a dozen tokens,
# and a text is covered only if all of them are:

together = np.bincount(text, weights=~sets.contains(actual)) == 0
print(f"all tokens covered in {together.mean():.0%} of the texts")

# %%
# For a guarantee about whole texts, use one score per text, the largest of its
# tokens.
#
# **Uncertain tokens are covered less often.** Most words of this log are
# certain, and coverage is marginal. At alpha = 0.1 most misses are tokens for
# which the model is uncertain:

loose = predictor.at(0.1).predict(probs).contains(actual)
unsure = probs.max(axis=1) < 0.9
print(f"alpha = 0.1: coverage of all tokens {loose.mean():.0%},")
print(
    f"of the {unsure.mean():.0%} with max p < 0.9: {loose[unsure].mean():.0%}"
)

# %%
# **The texts have another distribution.** At night the robot sees other plants
# and is more often uncertain. Coverage is lost:

night = [
    entry(rng, (0.05, 0.05, 0.1, 0.2, 0.3, 0.3), (0.1, 0.3, 0.6))
    for _ in range(1000)
]
probs, actual, _ = next_tokens(night)
at_night = pippin.metrics.coverage(predictor.predict(probs), actual)
print(f"coverage at night {at_night:.1%}")

# %%
# The same is true for text that a model has generated: it has another
# distribution than the calibration texts, and the guarantee does not apply. A
# :doc:`monitor <../changing_data/plot_09_drift>` detects such a change.
#
# Read on
# -------
# - :doc:`/guarantees`: clustered data, with a proof
# - :doc:`plot_17_dask_cluster`: data that do not fit into memory
# - :func:`pippin.calibrate` (``units=``), :class:`pippin.ConformalPredictor`
