"""A small PyTorch network on handwritten digits with prediction sets as its last layer."""

import torch
from sklearn.datasets import load_digits

import pippin.torch

torch.manual_seed(0)
digits = load_digits()
x = torch.tensor(digits.data, dtype=torch.float32) / 16
y = torch.tensor(digits.target)
train, calibration, test = torch.randperm(len(x)).split([600, 600, len(x) - 1200])

network = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
for _ in range(60):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(network(x[train]), y[train]).backward()
    optimizer.step()

loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x[calibration], y[calibration]), batch_size=100)
predictor = pippin.torch.calibrate(network, loader, score="repip", alpha=0.02)

deployed = torch.nn.Sequential(network, pippin.torch.ConformalHead(predictor)).eval()
sets = deployed(x[test])
covered = (sets.classes == y[test, None]).any(dim=1)
coverage, mean_size = covered.float().mean(), sets.sizes.float().mean()
print(f"{coverage:.1%} of the sets contain the true digit; {mean_size:.2f} digits per set.")
