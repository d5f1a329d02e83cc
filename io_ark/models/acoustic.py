"""Acoustic models (``final.mdl``): a transition model followed by Gaussian mixtures or a neural network."""

from __future__ import annotations

import re
from dataclasses import dataclass

from io_ark.codecs.base import Codec, Sink, peek_byte, read_marker, register_kind
from io_ark.errors import FormatError
from io_ark.models.codecs import TransitionModelCodec
from io_ark.models.fields import Array
from io_ark.models.gmm import AmDiagGmm, AmDiagGmmCodec
from io_ark.models.transitions import TransitionModel
from io_ark.streams.source import Source

_TOKEN = re.compile(rb"<\w+>\s")


@dataclass(frozen=True, repr=False)
class Network:
    """Neural network of an acoustic model, as uninterpreted bytes.

    Attributes:
        data: bytes of the file from the end of the transition model to the end of the file.
        is_binary: True if the file was binary, False if it was text.

    >>> from io_ark.models import Network
    >>> Network(b"<Nnet3> \\ninput-node name=input dim=40\\n\\n", is_binary=True).config
    ['input-node name=input dim=40']
    """

    data: bytes
    is_binary: bool

    def __repr__(self) -> str:
        return f"Network({self.kind!r}, {len(self.data)} bytes)"

    @property
    def kind(self) -> str:
        """Type of the network: ``Nnet3`` for nnet3 and chain models, ``Nnet`` for nnet2."""
        return self.data.lstrip()[:100].partition(b">")[0].decode("latin1").lstrip("<")

    @property
    def config(self) -> list[str]:
        """Lines that describe the nodes of an nnet3 network, such as ``input-node name=...``. Undefined for nnet2."""
        return self.data.partition(b"\n\n")[0].decode("latin1").splitlines()[1:]


@register_kind("acoustic-model")
@dataclass(frozen=True, eq=False)
class AcousticModel:
    """Acoustic model: a transition model with Gaussian mixtures or a neural network.

    Attributes:
        transitions: transition model.
        densities: Gaussian mixtures of the pdfs, neural network, or None if the file has only a transition model.

    >>> from io_ark.models import AcousticModel, HmmState, HmmTopology, TransitionModel
    >>> topology = HmmTopology.of({1: (HmmState(0, 0, ((0, 0.5), (1, 0.5))), HmmState())})
    >>> AcousticModel(TransitionModel.of(topology, [(1, 0, 0, 0)]), densities=None).transitions
    TransitionModel(num_transition_ids=2, num_pdfs=1)
    """

    transitions: TransitionModel
    densities: AmDiagGmm | Network | None

    def arrays(self) -> dict[str, Array]:
        """Return the parameters of all mixtures by name, as arrays (see :meth:`AmDiagGmm.arrays`).

        Raises:
            FormatError: the model has no mixtures.
        """
        if not isinstance(self.densities, AmDiagGmm):
            raise FormatError("the acoustic model has no Gaussian mixtures, and thus no arrays: pass a GMM model")
        return self.densities.arrays()


class AcousticModelCodec(Codec[AcousticModel]):
    """Codec of acoustic models."""

    _transitions = TransitionModelCodec()
    _mixtures = AmDiagGmmCodec()

    def read(self, source: Source) -> AcousticModel:
        start = source.tell()
        binary = read_marker(source)
        transitions = self._transitions.read_body(source, binary)
        if peek_byte(source, binary) != b"<":
            return AcousticModel(transitions, None)
        if source.peek(11) == b"<DIMENSION>":
            return AcousticModel(transitions, self._mixtures.read_body(source, binary))
        if not _TOKEN.match(source.peek(100)):  # A token has fewer than 100 bytes.
            source.fail("expected Gaussian mixtures or a network after the transition model: pass a final.mdl of Kaldi")
        if start:
            source.fail("a network extends to the end of the file: store it in a file, not in an archive", start)
        return AcousticModel(transitions, Network(source.read_rest(), binary))

    def write_body(self, sink: Sink, value: AcousticModel, binary: bool) -> None:
        if isinstance(value.densities, Network) and value.densities.is_binary != binary:
            raise FormatError(f"the network was read with binary={not binary}: write it with binary={not binary}")
        self._transitions.write_body(sink, value.transitions, binary)
        if isinstance(value.densities, Network):
            sink.write(value.densities.data)
        elif value.densities is not None:
            self._mixtures.write_body(sink, value.densities, binary)
