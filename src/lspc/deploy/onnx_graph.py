"""Pieces of an ONNX graph, written node by node: nothing but weights and the data's statistics is inside.

`Graph` collects nodes, weights, inputs and outputs; `Network` is an MLP in it. A network's first layer is split by
its inputs (W [s, z] = W_s s + W_z z): what depends on the observation alone is computed once for several policies,
and nothing has to be laid side by side.
"""

from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from jaxtyping import Array
from onnx import TensorProto, helper, numpy_helper

from lspc.algos.base import Normaliser
from lspc.algos.parts.diffusion import mish
from lspc.data.bounds import Bounds
from lspc.nets import MLP, Activation

OPSET, IR_VERSION = 17, 8
"""Old enough for the runtimes that robots have."""


class Graph:
    """In the making; what is added is known by its name. `fixed` leaves out the inputs that have a default."""

    def __init__(
        self, *, fixed: bool = False, weights: list[onnx.TensorProto] | None = None, bounds: Bounds | None = None
    ) -> None:
        self._fixed, self._bounds = fixed, bounds or Bounds()
        self.nodes: list[onnx.NodeProto] = []
        self.weights = [] if weights is None else weights
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []

    def constant(self, value: np.ndarray, name: str | None = None) -> str:
        name = name or f"weight{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def weight(self, value: Any, name: str | None = None) -> str:
        return self.constant(np.asarray(value, np.float32), name)

    def add(self, kind: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        name = name or f"{kind.lower()}{len(self.weights)}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def halve(self, x: str) -> tuple[str, str]:
        """The first and the second half of the features."""
        first, second = (f"half{len(self.weights)}_{len(self.nodes)}_{i}" for i in range(2))
        self.nodes.append(helper.make_node("Split", [x], [first, second], axis=-1))
        return first, second

    def activate(self, activation: Activation, x: str) -> str:
        if activation is mish:
            return self.add("Mul", x, self.add("Tanh", self.add("Softplus", x)))
        kinds: dict[Activation, str] = {jax.nn.relu: "Relu", jnp.tanh: "Tanh"}
        return self.add(kinds[activation], x)

    def clip(self, x: str, low: float, high: float) -> str:
        return self.add("Clip", x, self.weight(low), self.weight(high))

    def take(self, name: str, shape: list[str | int], meaning: str) -> None:
        """Declare an input that must be given."""
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape, meaning))

    def take_optional(self, name: str, shape: list[str | int], meaning: str, default: Any) -> str:
        """Declare an input with a default, or just the default if the graph is fixed."""
        self.weight(default, name)
        if not self._fixed:
            self.take(name, shape, meaning)
        return name

    def take_flag(self, name: str, meaning: str) -> str:
        """Declare a bool that is false unless given, in a fixed graph too."""
        self.constant(np.array(False), name)
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.BOOL, [], meaning))
        return name

    def give(self, name: str, shape: list[str | int], meaning: str) -> None:
        """Declare an output."""
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape, meaning))

    def name_action(self, name: str) -> str:
        """What to call an action in [-1, 1] that `give_action` will give as `name`; critics read it."""
        return name if self._bounds.are_unit else f"unit_{name}"

    def give_action(self, name: str, x: str, width: int, meaning: str = "", *, instead: str | None = None) -> None:
        """Declare an action as an output, in the plant's units and always finite.

        Rows of x that are not finite are taken from the action `instead`, which was given before, or are zeros.
        """
        # x - x is 0 where x is finite and NaN elsewhere.
        doubt = self.add("ReduceL1", self.add("Sub", x, x), axes=[-1], keepdims=1)
        other = self.name_action(instead) if instead else self.weight([0.0])
        self.add("Where", self.add("IsNaN", doubt), other, x, name=self.name_action(name))
        if not self._bounds.are_unit:
            low, high = np.array(self._bounds.low), np.array(self._bounds.high)
            moved = self.add("Mul", self.name_action(name), self.weight((high - low) / 2))
            moved = self.add("Add", moved, self.weight((high + low) / 2))
            # By Min and Max, since Clip takes one bound for all.
            self.add("Max", self.add("Min", moved, self.weight(high)), self.weight(low), name=name)
        within = "within 1" if self._bounds.are_unit else f"within {self._bounds}"
        self.give(name, ["batch", width], f"{meaning}, {within}" if meaning else within)

    def observe(self, normaliser: Normaliser) -> str:
        """Declare the observation and normalise it."""
        size = normaliser.mean.shape[0]
        self.take("observation", ["batch", size], "as the data have it: the graph holds their mean and spread")
        centred = self.add("Sub", "observation", self.weight(normaliser.mean))
        return self.add("Div", centred, self.weight(normaliser.std))

    def to_model(self, facts: dict[str, str]) -> onnx.ModelProto:
        model = helper.make_model(
            helper.make_graph(self.nodes, "lspc", self.inputs, self.outputs, self.weights),
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="lspc",
        )
        helper.set_model_props(model, facts)
        onnx.checker.check_model(model, full_check=True)
        return model


class Network:
    """An MLP in the graph, its first layer split between the observation and the input that follows it.

    Gemm is one node where MatMul and Add are two, but knows neither a third axis nor inputs of which one has a
    single row for all: `gemm=False` is for those.
    """

    def __init__(
        self, graph: Graph, net: MLP, seen: str, size: int, *, bias: str | None = None, gemm: bool = True
    ) -> None:
        self._graph, self._net, self._size, self._gemm = graph, net, size, gemm
        first = net.layers[0]
        self.of_observation = self._dense(seen, graph.weight(first.weight[:size]), bias or graph.weight(first.bias))

    def _dense(self, x: str, weight: str, bias: str) -> str:
        if self._gemm:
            return self._graph.add("Gemm", x, weight, bias)
        return self._graph.add("Add", self._graph.add("MatMul", x, weight), bias)

    @cached_property
    def _other(self) -> str:
        return self._graph.weight(self._net.layers[0].weight[self._size :])

    @cached_property
    def _layers(self) -> list[tuple[str, str]]:
        return [(self._graph.weight(layer.weight), self._graph.weight(layer.bias)) for layer in self._net.layers[1:]]

    def with_input(self, other: str) -> str:
        """The first layer (before its activation) when the other input is this."""
        return self._dense(other, self._other, self.of_observation)

    def output(self, first: str) -> str:
        for weight, bias in self._layers:
            first = self._dense(self._graph.activate(self._net.activation, first), weight, bias)
        return first


def draw_normal(graph: Graph, parameters: str, noise: str, smallest: float, largest: float) -> str:
    """mean + spread * noise, from a network's mean and log-spread."""
    mean, log_std = graph.halve(parameters)
    spread = graph.add("Exp", graph.clip(log_std, smallest, largest))
    return graph.add("Add", mean, graph.add("Mul", spread, noise))


def split_rows(weight: Array, *sizes: int) -> list[np.ndarray]:
    """A first layer's weight by its inputs."""
    return np.split(np.asarray(weight), np.cumsum(sizes)[:-1])
