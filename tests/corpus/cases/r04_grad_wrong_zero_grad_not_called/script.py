import argparse
import torch
from torch import nn


def main(args):
    global net
    torch.manual_seed(args.seed)
    net = nn.Sequential(nn.Linear(5, 10), nn.ReLU(), nn.Linear(10, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for epoch in range(args.epochs):
        for _ in range(3):
            x = torch.randn(8, 5)
            y = (x[:, 0] > 0).long()
            optimizer.zero_grad
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
        scheduler.step()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    main(parser.parse_known_args()[0])
