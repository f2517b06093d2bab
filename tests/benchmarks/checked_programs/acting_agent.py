"""PPO on a pole that is balanced, with an environment written in plain Python."""

import math
import random

import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
random.seed(0)


class Pole:
    def reset(self):
        self.state = [random.uniform(-0.05, 0.05) for _ in range(4)]
        self.steps = 0
        return list(self.state)

    def step(self, action):
        x, v, angle, spin = self.state
        force = 10.0 if action == 1 else -10.0
        cos, sin = math.cos(angle), math.sin(angle)
        temp = (force + 0.05 * spin * spin * sin) / 1.1
        acc = (9.8 * sin - cos * temp) / (0.5 * (4.0 / 3.0 - 0.1 * cos * cos / 1.1))
        xacc = temp - 0.05 * acc * cos / 1.1
        self.state = [x + 0.02 * v, v + 0.02 * xacc, angle + 0.02 * spin, spin + 0.02 * acc]
        self.steps += 1
        done = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21 or self.steps >= 300
        return list(self.state), 1.0, done


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
        self.critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def act(self, state, action=None):
        policy = Categorical(logits=self.actor(state))
        if action is None:
            action = policy.sample()
        return action, policy.log_prob(action), policy.entropy(), self.critic(state).squeeze(-1)


ROLLOUT, EPOCHS, BATCH, GAMMA, LAMBDA = 512, 4, 64, 0.99, 0.95
agent, env = Agent(), Pole()
optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
state = torch.tensor(env.reset())
done = 0.0
lengths = []
for update in range(3):
    states = torch.zeros(ROLLOUT, 4)
    actions, log_probs, rewards, dones, values = (torch.zeros(ROLLOUT) for _ in range(5))
    for step in range(ROLLOUT):
        states[step], dones[step] = state, done
        with torch.no_grad():
            action, log_prob, _, value = agent.act(state)
        actions[step], log_probs[step], values[step] = action, log_prob, value
        following, reward, over = env.step(action.item())
        rewards[step] = torch.tensor(reward)
        done = float(over)
        if over:
            lengths.append(env.steps)
            following = env.reset()
        state = torch.tensor(following)
    with torch.no_grad():
        last = agent.critic(state).squeeze(-1)
        advantages = torch.zeros(ROLLOUT)
        running = 0.0
        for t in reversed(range(ROLLOUT)):
            is_last = t == ROLLOUT - 1
            alive = 1.0 - (done if is_last else dones[t + 1])
            after = last if is_last else values[t + 1]
            delta = rewards[t] + GAMMA * after * alive - values[t]
            advantages[t] = running = delta + GAMMA * LAMBDA * alive * running
        returns = advantages + values
    for _ in range(EPOCHS):
        for index in torch.randperm(ROLLOUT).split(BATCH):
            _, new, entropy, value = agent.act(states[index], actions[index])
            ratio = (new - log_probs[index]).exp()
            adv = advantages[index]
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
            policy_loss = torch.max(-adv * ratio, -adv * ratio.clamp(0.8, 1.2)).mean()
            value_loss = 0.5 * (value - returns[index]).pow(2).mean()
            loss = policy_loss + 0.5 * value_loss - 0.01 * entropy.mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
    print(update, loss.item(), sum(lengths[-10:]) / max(1, len(lengths[-10:])))
