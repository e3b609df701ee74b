"""LSPC as an ONNX graph, written node by node: nothing but weights and the data's statistics is inside.

A network's first layer is split by its inputs (W [s, z] = W_s s + W_z z): what depends on the observation alone is
then computed once for LSPC-O and LSPC-S, and nothing has to be laid side by side. The critics are four times the work
of an action, so they run only when asked.
"""

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from lspc.algos.lspc import LspcPolicy
from lspc.nets import MLP

OPSET, IR_VERSION = 17, 8
"""Old enough for the runtimes that robots have."""

INPUTS = {
    "observation": "as the data have it: the graph holds their mean and spread",
    "eps": "how far LSPC-O may look for reward; the run's own unless given",
    "noise": "standard normal, for random actions of LSPC-O; zero unless given",
    "judge": "true asks the critics too; false unless given",
}
ACTIONS = {"action": "of LSPC-O", "safe_action": "of LSPC-S"}
JUDGEMENTS = {
    "cost": "discounted cost that Q_c expects of the action; empty unless asked for with `judge`, as those below",
    "reward": "discounted, scaled reward that Q_r expects of it",
    "safe_cost": "what Q_c expects of the safe action",
    "safe_reward": "what Q_r expects of it",
}


class Graph:
    """Nodes and weights in the making; what is added is known by its name."""

    def __init__(self, weights: list[onnx.TensorProto] | None = None) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights = [] if weights is None else weights

    def weight(self, value: Any, name: str | None = None) -> str:
        name = name or f"weight{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def add(self, kind: str, *inputs: str, name: str | None = None) -> str:
        name = name or f"{kind.lower()}{len(self.weights)}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name]))
        return name


class Network:
    """An MLP in the graph, its first layer split between the observation and the input that follows it."""

    def __init__(self, graph: Graph, net: MLP, observation: str, size: int) -> None:
        self._graph, first = graph, net.layers[0]
        self.of_observation = graph.add(
            "Gemm", observation, graph.weight(first.weight[:size]), graph.weight(first.bias)
        )
        self._other = graph.weight(first.weight[size:])
        self._layers = [(graph.weight(layer.weight), graph.weight(layer.bias)) for layer in net.layers[1:]]

    def with_input(self, other: str) -> str:
        """The first layer (before its activation) when the other input is this."""
        return self._graph.add("Gemm", other, self._other, self.of_observation)

    def output(self, first: str) -> str:
        for weight, bias in self._layers:
            first = self._graph.add("Gemm", self._graph.add("Relu", first), weight, bias)
        return first


def build(policy: LspcPolicy, *, fixed: bool, facts: dict[str, str]) -> onnx.ModelProto:
    """The policy with its critics; `fixed` takes eps and noise from the inputs, so that nobody changes them."""
    graph, size = Graph(), policy.normaliser.mean.shape[0]
    centred = graph.add("Sub", "observation", graph.weight(policy.normaliser.mean))
    seen = graph.add("Div", centred, graph.weight(policy.normaliser.std))
    decoder = Network(graph, policy.decoder, seen, size)
    graph.add("Tanh", decoder.output(decoder.with_input(_latent(graph, policy, seen))), name="action")
    graph.add("Tanh", decoder.output(decoder.of_observation), name="safe_action")
    graph.weights.append(numpy_helper.from_array(np.array(False), "judge"))
    asked, not_asked = _judgements(graph, policy, seen), _no_judgements()
    graph.nodes.append(helper.make_node("If", ["judge"], list(JUDGEMENTS), then_branch=asked, else_branch=not_asked))

    action_dim = policy.decoder.layers[-1].bias.shape[0]
    inputs = {
        "observation": _tensor("observation", ["batch", size], INPUTS["observation"]),
        "eps": _tensor("eps", [1], INPUTS["eps"]),
        "noise": _tensor("noise", ["noises", policy.config.latent_dim], INPUTS["noise"]),
        "judge": helper.make_tensor_value_info("judge", TensorProto.BOOL, [], INPUTS["judge"]),
    }
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "lspc",
            [tensor for name, tensor in inputs.items() if not fixed or name in ("observation", "judge")],
            [_tensor(name, ["batch", action_dim], meaning) for name, meaning in ACTIONS.items()]
            + [_tensor(name, ["judged", 1], meaning) for name, meaning in JUDGEMENTS.items()],
            graph.weights,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="lspc",
    )
    helper.set_model_props(model, facts)
    onnx.checker.check_model(model, full_check=True)
    return model


def _judgements(graph: Graph, policy: LspcPolicy, seen: str) -> onnx.GraphProto:
    """The branch that asks the critics; its weights lie in the outer graph."""
    branch = Graph(graph.weights)
    names = {}
    for kind, twins, worse in (("cost", policy.cost_q, "Max"), ("reward", policy.reward_q, "Min")):
        nets = [Network(branch, net, seen, policy.normaliser.mean.shape[0]) for net in twins]
        for prefix in ("", "safe_"):
            both = [net.output(net.with_input(f"{prefix}action")) for net in nets]
            names[f"{prefix}{kind}"] = branch.add(worse, *both, name=f"judged_{prefix}{kind}")
    outputs = [helper.make_tensor_value_info(names[name], TensorProto.FLOAT, None) for name in JUDGEMENTS]
    return helper.make_graph(branch.nodes, "judged", [], outputs)


def _no_judgements() -> onnx.GraphProto:
    nothing = numpy_helper.from_array(np.zeros((0, 1), np.float32))
    names = [f"no_{name}" for name in JUDGEMENTS]
    nodes = [helper.make_node("Constant", [], [name], value=nothing) for name in names]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]
    return helper.make_graph(nodes, "not_judged", [], outputs)


def _latent(graph: Graph, policy: LspcPolicy, seen: str) -> str:
    """LSPC-O's latent: eps tanh(mean + spread noise)."""
    config, encoder = policy.config, policy.encoder
    eps = graph.weight(np.reshape(policy.restriction, (1,)), "eps")
    noise = graph.weight(np.zeros((1, config.latent_dim)), "noise")
    first, last = encoder.layers[0], encoder.layers[-1]
    size = policy.normaliser.mean.shape[0]
    bias = graph.weight(first.bias)
    if config.restriction_range is not None:  # told eps scaled to [-1, 1]: one more input of weight w adds w eps'
        told = graph.add(
            "Sub", graph.add("Mul", eps, graph.weight([2.0 / config.restriction_range[1]])), graph.weight([1.0])
        )
        bias = graph.add("Add", bias, graph.add("Mul", told, graph.weight(first.weight[size])))
    hidden = graph.add("Relu", graph.add("Gemm", seen, graph.weight(first.weight[:size]), bias))
    for layer in encoder.layers[1:-1]:
        hidden = graph.add("Relu", graph.add("Gemm", hidden, graph.weight(layer.weight), graph.weight(layer.bias)))
    means, spreads = slice(0, config.latent_dim), slice(config.latent_dim, None)
    mean, log_std = (
        graph.add("Gemm", hidden, graph.weight(last.weight[:, part]), graph.weight(last.bias[part]))
        for part in (means, spreads)
    )
    kept = graph.add("Clip", log_std, graph.weight(-10.0), graph.weight(2.0))
    moved = graph.add("Add", mean, graph.add("Mul", graph.add("Exp", kept), noise))
    return graph.add("Mul", graph.add("Tanh", moved), eps)


def _tensor(name: str, shape: list[str | int], meaning: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape, meaning)
