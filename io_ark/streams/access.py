"""Permissions to run commands and to open URLs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from io_ark.errors import NetworkRefusedError, PipesRefusedError

NO_PIPES_VARIABLE = "IO_ARK_NO_PIPES"
NO_NETWORK_VARIABLE = "IO_ARK_NO_NETWORK"
SCHEMES_VARIABLE = "IO_ARK_SCHEMES"
PRIVATE_VARIABLE = "IO_ARK_PRIVATE_HOSTS"

SCHEMES = ("http", "https", "s3", "gs", "hf")


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "") not in ("", "0")


class Access(NamedTuple):
    """Permissions to run commands and to open URLs. The methods name the environment variables that change them.

    Attributes:
        pipes: allow commands.
        network: allow URLs of the schemes in :data:`SCHEMES`, and of the schemes that ``IO_ARK_SCHEMES`` lists.
        private: allow http and https URLs at addresses of a private network or of this machine. Addresses are checked
            when a connection is made. ``IO_ARK_PRIVATE_HOSTS`` allows private addresses in script files as well.

    >>> from io_ark.streams import Access
    >>> Access(pipes=False).check_command("cat feats.ark |")
    Traceback (most recent call last):
    ...
    io_ark.errors.PipesRefusedError: the command 'cat feats.ark |' is not run: pipes are disabled (pipes=False)
    """

    pipes: bool = True
    network: bool = True
    private: bool = True

    def check_command(self, command: str) -> None:
        """Raise :class:`PipesRefusedError` if commands are disabled, by ``pipes=False`` or by ``IO_ARK_NO_PIPES``."""
        if not self.pipes or _is_set(NO_PIPES_VARIABLE):
            reason = (
                f"{NO_PIPES_VARIABLE} is set in the environment" if self.pipes else "pipes are disabled (pipes=False)"
            )
            raise PipesRefusedError(f"the command {command.strip()!r} is not run: {reason}")

    def check_url(self, url: str) -> None:
        """Raise :class:`NetworkRefusedError` for a chained URL, for a refused scheme, or if the network is disabled.

        Allowed schemes are in :data:`SCHEMES` or in the environment variable ``IO_ARK_SCHEMES``, which lists further
        schemes, separated by commas. A chained URL contains ``::``. ``IO_ARK_NO_NETWORK`` disables the network.
        """
        if not self.network or _is_set(NO_NETWORK_VARIABLE):
            reason = (
                f"{NO_NETWORK_VARIABLE} is set in the environment" if self.network else "it is disabled (network=False)"
            )
            raise NetworkRefusedError(f"the network is not used: {reason}", file=url)
        scheme = url.partition("://")[0].lower()
        if scheme not in (*SCHEMES, *os.environ.get(SCHEMES_VARIABLE, "").lower().split(",")):
            raise NetworkRefusedError(f"URLs of the scheme {scheme!r} are not opened: use {', '.join(SCHEMES)}, or "
                                      f"list the scheme in {SCHEMES_VARIABLE} in the environment",
                                      file=url)  # fmt: skip
        if "::" in url:
            message = "chained URLs (::) are not supported: use a pipe such as 'curl -s URL |'"
            raise NetworkRefusedError(message, file=url)


def is_public(address: str) -> bool:
    """Return True for a public IP address, and False for a private, local, multicast, reserved or invalid address.

    An IPv6 address that a gateway translates to an IPv4 address is as public as the IPv4 address.
    """
    import ipaddress  # Imported here, because an import at the top delays every program.

    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False  # An unusual spelling such as 127.1 may hide a private address.
    if isinstance(parsed, ipaddress.IPv6Address):
        ipv4 = parsed.sixtofour or (parsed in ipaddress.ip_network("64:ff9b::/96") and int(parsed) & 0xFFFFFFFF)
        if ipv4:  # A gateway leads to this IPv4 address (6to4, RFC 3056; NAT64, RFC 6052, in the lower 32 bits).
            return is_public(str(ipaddress.IPv4Address(ipv4)))
        if parsed.is_reserved or parsed.is_site_local:
            return False
    return parsed.is_global and not parsed.is_multicast


def refuse_private(host: str, addresses: Iterable[str]) -> None:
    """Raise :class:`NetworkRefusedError` if an address is not public and IO_ARK_PRIVATE_HOSTS is not set.

    ``addresses`` are the IP addresses of ``host``, which the error names.
    """
    if not (_is_set(PRIVATE_VARIABLE) or all(map(is_public, addresses))):
        raise NetworkRefusedError(
            f"{host} is this machine or in a private network, and script files must not open such addresses: "
            f"set {PRIVATE_VARIABLE}=1 in the environment if you trust the script file"
        )
