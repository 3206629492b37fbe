"""
How do I get prediction sets for next tokens?
=============================================

A language model gives a probability to every token of its vocabulary. A prediction set
is a short list of next tokens that holds the one that comes, as often as you ask for.

.. admonition:: The guarantee
   :class: guarantee

   A token drawn at random from a *new text of the same kind* is in its set with
   probability at least 1 − alpha, if whole texts calibrate and each text counts once.
"""

# %%
# A small language model
# ----------------------
# The page writes its own texts, the log of a field robot, and trains a tiny GPT-2 on
# them for some seconds. Nothing is downloaded.

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

logging.set_verbosity_error()
rng = np.random.default_rng(0)
torch.manual_seed(0)


PLANTS = ["maize", "wheat", "beet", "charlock", "cleavers", "mayweed"]


def entry(rng, plants=(0.3, 0.25, 0.2, 0.1, 0.1, 0.05), doubts=(0.6, 0.3, 0.1)):
    """One line of the robot's log, as a list of words."""
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
    """Texts as rows of token numbers; −100 fills them up."""
    length = 1 + max(map(len, texts))
    rows = [[number["<start>"], *(number[word] for word in text)] for text in texts]
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
print(f"{model.num_parameters():,} parameters, loss {loss.item():.2f} at the end")

# %%
# Calibrate on whole texts
# ------------------------
# The tokens of one text depend on each other, so the unit that is drawn anew is a text:
# ``units=`` says which rows belong together.

import pippin


def next_tokens(texts):
    """Probabilities of every next token, the token that came, and its text."""
    rows = tokens(texts)
    with torch.no_grad():
        probs = model(input_ids=rows.clamp(min=0)).logits[:, :-1].softmax(dim=-1)
    came = rows[:, 1:]
    return (
        probs[came >= 0].numpy(),
        came[came >= 0].numpy(),
        torch.nonzero(came >= 0)[:, 0].numpy(),
    )


probs, came, text = next_tokens([entry(rng) for _ in range(500)])
predictor = pippin.calibrate(
    probs, came, "pip", alpha=0.02, classes=vocabulary, units=text
)
predictor

# %%

new = [entry(rng) for _ in range(1000)]
probs, came, text = next_tokens(new)
sets = predictor.predict(probs)
covered = pippin.metrics.coverage(sets, came)
print(f"{covered:.1%} of {len(came):,} new tokens are in their sets")
print(f"{pippin.metrics.mean_size(sets):.2f} words per set")

# %%
# One line of the log, word by word: where the grammar leaves no choice the set is one
# word, and where the world decides it is long.

import matplotlib.pyplot as plt

first = text == next(i for i, line in enumerate(new) if "charlock" in line)
words, members = (
    np.array(vocabulary)[came[first]],
    [sets[i] for i in np.flatnonzero(first)],
)
fig, ax = plt.subplots(figsize=(9, 4.2))
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
            fontsize=8,
            color="white",
            weight=weight,
        )
ax.set_xticks(range(len(words)), words)
ax.set(ylabel="words in the set", xlabel="the word that came")
ax.set_title("What may come next: 98% of the words are in their sets")
ax.grid(axis="x", visible=False)
plt.show()

# %%
# What can go wrong
# -----------------
# **Ninety-eight in a hundred words is not ninety-eight in a hundred texts.** A line has
# a dozen tokens, and one miss is enough:

together = np.bincount(text, weights=~sets.contains(came)) == 0
print(f"in {together.mean():.0%} of the texts every token is in its set")

# %%
# For a promise about whole texts, a text must be one row: calibrate on its largest
# score.
#
# **Easy tokens pay for the others.** Most words of this log are certain. At alpha = 0.1
# they alone make up for nearly all misses, and where the model really has to choose,
# the sets are hardly worth their name:

loose = predictor.at(0.1).predict(probs).contains(came)
unsure = probs.max(axis=1) < 0.9
print(f"alpha = 0.1: {loose.mean():.0%} of all tokens are covered,")
print(
    f"and {loose[unsure].mean():.0%} of those {unsure.mean():.0%} of which the "
    "model is not certain"
)

# %%
# **Another kind of text.** By night the robot sees other plants and doubts more. The
# model and the sets know nothing of it:

night = [
    entry(rng, (0.05, 0.05, 0.1, 0.2, 0.3, 0.3), (0.1, 0.3, 0.6)) for _ in range(1000)
]
probs, came, _ = next_tokens(night)
print(
    f"by night {pippin.metrics.coverage(predictor.predict(probs), came):.1%} of the "
    "tokens are in their sets"
)

# %%
# The same holds for text that a model has written itself: it is not of the kind that
# calibrated, and nothing is promised about it. A :doc:`monitor
# <../changing_data/plot_09_drift>` notices such a change.
#
# Read on
# -------
# - :doc:`/guarantees`: units, with the proof
# - :doc:`plot_17_dask_cluster`: logs that do not fit into memory
# - :func:`pippin.calibrate` (``units=``), :class:`pippin.ConformalPredictor`
