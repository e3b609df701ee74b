"""LSPC's update as one writes it in PyTorch, eager or compiled: what benchmarks/updates.py compares ours with.

It runs in an environment of its own (`pip install torch==2.13.0 numpy`), started by the benchmark, which asks it line
by line. The settings are those of the `paper` preset; tests cannot hold it, so the benchmark checks one update of it
against ours, number by number.
"""

import json
import sys
import time
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

torch.set_num_threads(1)


def mlp(inputs: int, outputs: int, hidden: list[int]) -> nn.Sequential:
    sizes, layers = [inputs, *hidden, outputs], []
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Lspc:
    """The networks, and `update`: V_r, Q_r, V_c, Q_c, CVAE, latent safety encoder."""

    def __init__(self, settings: dict[str, Any], compiled: bool) -> None:
        o, a, z = settings["observation_dim"], settings["action_dim"], settings["latent_dim"]
        hidden, self.s = settings["hidden"], settings
        self.nets = nn.ModuleDict()
        for name in ("reward", "cost"):
            self.nets[f"{name}_v"] = mlp(o, 1, hidden)
            for copy in ("q1", "q2", "slow1", "slow2"):
                self.nets[f"{name}_{copy}"] = mlp(o + a, 1, hidden)
        self.nets["alpha"], self.nets["beta"] = mlp(o + a, 2 * z, hidden), mlp(o + z, a, hidden)
        self.nets["delta"] = mlp(o, 2 * z, hidden)
        self.adam = {
            "reward_v": self._adam("reward_v"), "reward_q": self._adam("reward_q1", "reward_q2"),
            "cost_v": self._adam("cost_v"), "cost_q": self._adam("cost_q1", "cost_q2"),
            "cvae": self._adam("alpha", "beta"), "delta": self._adam("delta"),
        }  # fmt: skip
        wrap = torch.compile if compiled else lambda function: function
        self.critic_losses = {
            name: (wrap(self._value_loss(name)), wrap(self._q_loss(name))) for name in ("reward", "cost")
        }
        self.cvae_loss, self.delta_loss = wrap(self._cvae_loss), wrap(self._delta_loss)

    def _adam(self, *names: str) -> torch.optim.Adam:
        weights = [weight for name in names for weight in self.nets[name].parameters()]
        return torch.optim.Adam(weights, lr=self.s["learning_rate"])

    def _value_loss(self, name: str) -> Any:
        slow1, slow2, v = (self.nets[f"{name}_{part}"] for part in ("slow1", "slow2", "v"))
        sign = -1.0 if name == "cost" else 1.0

        def loss(both: Tensor, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            with torch.no_grad():
                pessimist = torch.maximum if name == "cost" else torch.minimum
                q = pessimist(slow1(both), slow2(both))[:, 0]
            value = v(states)[:, 0]
            u = sign * (q - value)
            weight = torch.where(u < 0, 1 - self.s["expectile"], self.s["expectile"])
            return (weight * u**2).mean(), q, value.detach()

        return loss

    def _q_loss(self, name: str) -> Any:
        q1, q2, v = (self.nets[f"{name}_{part}"] for part in ("q1", "q2", "v"))
        largest = self.s[f"{name}_largest"]

        def loss(both: Tensor, signal: Tensor, following: Tensor, ends: Tensor) -> Tensor:
            with torch.no_grad():
                value = v(following)[:, 0].clamp(0.0 if name == "cost" else -largest, largest)
                target = signal + self.s["discount"] * (1 - ends) * value
            return ((q1(both)[:, 0] - target) ** 2).mean() + ((q2(both)[:, 0] - target) ** 2).mean()

        return loss

    def _cvae_loss(self, states: Tensor, actions: Tensor, both: Tensor, weight: Tensor, noise: Tensor) -> Tensor:
        mean, log_std = self.nets["alpha"](both).chunk(2, dim=1)
        log_std = log_std.clamp(-4, 15)
        decoded = torch.tanh(self.nets["beta"](torch.cat([states, mean + log_std.exp() * noise], 1)))
        error = ((decoded - actions) ** 2).sum(1)
        kl = 0.5 * (mean**2 + (2 * log_std).exp() - 1 - 2 * log_std).mean(1)
        return (weight * (error + self.s["kl_weight"] * kl)).mean()

    def _delta_loss(self, states: Tensor, actions: Tensor, weight: Tensor, noise: Tensor) -> Tensor:
        mean, log_std = self.nets["delta"](states).chunk(2, dim=1)
        latents = self.s["restriction"] * torch.tanh(mean + log_std.clamp(-10, 2).exp() * noise)
        decoded = torch.tanh(self.nets["beta"](torch.cat([states, latents], 1)))
        return (weight * ((decoded - actions) ** 2).sum(1)).mean()

    def _step(self, name: str, loss: Tensor) -> None:
        self.adam[name].zero_grad()
        loss.backward()
        self.adam[name].step()

    def update(self, batch: dict[str, Tensor], noises: tuple[Tensor, Tensor] | None = None) -> None:
        states, actions = batch["observations"], batch["actions"]
        both, advantages = torch.cat([states, actions], 1), {}
        for name, signal in (("reward", batch["rewards"]), ("cost", batch["costs"])):
            value_loss, q_loss = self.critic_losses[name]
            loss, q, value = value_loss(both, states)
            self._step(f"{name}_v", loss)
            self._step(f"{name}_q", q_loss(both, signal, batch["next_observations"], batch["terminated"]))
            with torch.no_grad():
                for fast, slow in (("q1", "slow1"), ("q2", "slow2")):
                    pairs = (self.nets[f"{name}_{part}"].parameters() for part in (slow, fast))
                    for old, new in zip(*pairs, strict=True):
                        old.lerp_(new, self.s["target_rate"])
            advantages[name] = q - (value.clamp(min=0) if name == "cost" else value)
        largest = float(np.log(self.s["max_weight"]))
        careful = (-self.s["cost_temperature"] * advantages["cost"]).clamp(max=largest).exp()
        rewarding = (self.s["reward_temperature"] * advantages["reward"]).clamp(max=largest).exp()
        shape = (len(actions), self.s["latent_dim"])
        first, second = noises or (torch.randn(shape), torch.randn(shape))
        self._step("cvae", self.cvae_loss(states, actions, both, careful, first))
        self._step("delta", self.delta_loss(states, actions, rewarding, second))

    def load(self, weights: dict[str, np.ndarray]) -> None:
        """`reward_q1.0.weight` and so on, laid out as PyTorch has them."""
        self.nets.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})


class Server:
    """Answers the benchmark: time some updates, or take one from given weights."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings, self.size = settings, settings["batch_size"]
        self.rows = {name: torch.from_numpy(value) for name, value in np.load(settings["data"]).items()}
        self.kinds = {"eager": Lspc(settings, False), "compile": Lspc(settings, True)}

    def run(self, kind: str, updates: int) -> dict[str, float]:
        lspc, count = self.kinds[kind], len(self.rows["rewards"])
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(updates):
            chosen = torch.randint(count, (self.size,))
            lspc.update({name: rows[chosen] for name, rows in self.rows.items()})
        return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}

    def check(self, given: str, kind: str, answer: str) -> dict[str, Any]:
        content = dict(np.load(given))
        lspc = Lspc(self.settings, kind == "compile")
        lspc.load({name[2:]: value for name, value in content.items() if name.startswith("w:")})
        batch = {name[2:]: torch.from_numpy(value) for name, value in content.items() if name.startswith("b:")}
        noises = torch.from_numpy(content["n:first"]), torch.from_numpy(content["n:second"])
        lspc.update(batch, noises)
        np.savez(answer, **{name: value.numpy() for name, value in lspc.nets.state_dict().items()})
        return {}


def main() -> None:
    server = Server(json.loads(sys.stdin.readline()))
    for line in sys.stdin:
        asked = json.loads(line)
        found = server.run(asked["kind"], asked["updates"]) if "updates" in asked else server.check(**asked)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
